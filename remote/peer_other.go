//go:build !linux && !darwin

package remote

import "errors"

// peerUID cannot be told here, so nobody is let in.
func peerUID(int) (int, error) {
	return -1, errors.New("this system does not tell who connects")
}
