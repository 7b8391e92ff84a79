//go:build unix

package host

// identity tells two files of one system apart, for as long as both exist.
type identity struct{ dev, ino uint64 }

func (a identity) less(b identity) bool {
	if a.dev != b.dev {
		return a.dev < b.dev
	}
	return a.ino < b.ino
}
