package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wsctl/wsctl/workspace"
)

// maxConfig bounds another program's configuration, in bytes: Claude Code keeps
// its state in it.
const maxConfig = 64 << 20

// configFile is another program's configuration.
type configFile struct {
	// dir is the project whose file it is; empty: it is the user's own. A
	// project's may be anybody's work, so no link leads out of dir.
	dir string
	// names are where it may be, in dir or as paths; the first that is there
	// is it, else the first.
	names []string
}

// String is the path of the file.
func (f configFile) String() string {
	if f.dir == "" {
		return f.pick(os.Stat)
	}
	return filepath.Join(f.dir, filepath.FromSlash(f.pick(func(name string) (fs.FileInfo, error) {
		return os.Stat(filepath.Join(f.dir, name))
	})))
}

func (f configFile) pick(stat func(string) (fs.FileInfo, error)) string {
	for _, name := range f.names {
		if _, err := stat(name); err == nil {
			return name
		}
	}
	return f.names[0]
}

// change replaces the file by what edit makes of it, atomically, with its mode.
// When edit returns what it got nothing is written. Where there is no file,
// edit gets nothing.
func (f configFile) change(edit func(old []byte) ([]byte, error)) error {
	root, name, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	old, fi, err := readConfig(root, name)
	if err != nil {
		return err
	}
	text, err := edit(old)
	if err != nil || fi != nil && bytes.Equal(text, old) {
		return err
	}
	perm := fs.FileMode(0o600)
	if fi != nil {
		perm = fi.Mode().Perm()
	} else if f.dir != "" {
		perm = 0o644
	}
	return replaceConfig(root, name, text, perm, fi)
}

// open holds the directory below which the file is.
func (f configFile) open() (root *os.Root, name string, err error) {
	if f.dir != "" {
		if root, err = os.OpenRoot(f.dir); err != nil {
			return nil, "", err
		}
		name = filepath.FromSlash(f.pick(root.Stat))
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			root.Close()
			return nil, "", err
		}
		return root, name, nil
	}
	full := f.pick(os.Stat)
	// A user's file may be a link into a directory of dotfiles; the link stays.
	if real, err := filepath.EvalSymlinks(full); err == nil {
		full = real
	}
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		return nil, "", err
	}
	root, err = os.OpenRoot(filepath.Dir(full))
	return root, filepath.Base(full), err
}

// readConfig reads the file; no FileInfo: there is none.
func readConfig(root *os.Root, name string) ([]byte, fs.FileInfo, error) {
	fi, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := root.Lstat(name); err == nil {
			return nil, nil, errors.New("it is a link that leads nowhere")
		}
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case !fi.Mode().IsRegular():
		return nil, nil, errors.New("it is no regular file")
	case fi.Size() > maxConfig:
		return nil, nil, workspace.Errorf(workspace.ErrTooLarge, "mcp install", name, "it has more than %d bytes", maxConfig)
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxConfig))
	return text, fi, err
}

// replaceConfig writes text beside the file and moves it there, unless somebody
// has changed the file since it was read.
func replaceConfig(root *os.Root, name string, text []byte, perm fs.FileMode, was fs.FileInfo) (err error) {
	if link, lerr := root.Readlink(name); lerr == nil {
		// Within the project: its target is changed.
		name = filepath.Join(filepath.Dir(name), link)
	}
	draft := filepath.Join(filepath.Dir(name), ".wsctl-"+rand.Text()[:10])
	file, err := root.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(draft)
		}
	}()
	_, err = file.Write(text)
	err = errors.Join(err, file.Chmod(perm), file.Sync(), file.Close())
	if err != nil {
		return err
	}
	now, err := root.Stat(name)
	switch {
	case was == nil && err == nil,
		was != nil && (err != nil || !os.SameFile(was, now) || now.ModTime() != was.ModTime() || now.Size() != was.Size()):
		return workspace.Errorf(workspace.ErrConflict, "mcp install", name, "somebody else changed it in between; try again")
	}
	if err := root.Rename(draft, name); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
