//go:build unix

package container

import (
	"slices"
	"testing"
)

func TestEnvOfAnImageIsCleaned(t *testing.T) {
	kept, unset := cleanEnv([]string{
		"FOO=bar", "LD_PRELOAD=/evil.so", "LD_LIBRARY_PATH=/x", "ENV=/rc", "BASH_ENV=/rc", "BASH_FUNC_ls%%=() { id; }", "SHELLOPTS=xtrace", "PS4=$(id)",
		"LD_PRELOAD=again", "EMPTY=", "A=b=c", "noequals", "=x", "N=a\x00b", "ENVIRON=ok", "LDFLAGS=-s", "PATH=/opt/bin:/bin",
		"GODEBUG=schedtrace=1", "GOTRACEBACK=crash", "GOGC=off", "GOMEMLIMIT=1", "GOFLAGS=-v",
	})
	if want := []string{"FOO=bar", "EMPTY=", "A=b=c", "ENVIRON=ok", "LDFLAGS=-s", "PATH=/opt/bin:/bin", "GOFLAGS=-v"}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
	if want := []string{"BASH_ENV", "BASH_FUNC_ls%%", "ENV", "GODEBUG", "GOGC", "GOMEMLIMIT", "GOTRACEBACK", "LD_LIBRARY_PATH", "LD_PRELOAD", "PS4", "SHELLOPTS"}; !slices.Equal(unset, want) {
		t.Errorf("unset %q, want %q", unset, want)
	}
	for _, env := range [][]string{nil, {"PATH="}} {
		if kept, _ := cleanEnv(env); !slices.Equal(kept, []string{"PATH=" + defaultPath}) {
			t.Errorf("%q: kept %q", env, kept)
		}
	}
}

func TestEnvOfACommand(t *testing.T) {
	image := imageInfo{Env: []string{"PATH=/p", "HOME=/root", "TMPDIR=/x", "USER=img", "LANG=de_DE.UTF-8", "GOPROXY=direct", "A=b=c"}}
	for _, c := range []struct {
		name string
		in   envRequest
		want []string
	}{
		{
			"image's own holds",
			envRequest{Image: image, User: commandUser{UID: 5, GID: 6}, Offline: true},
			[]string{"A=b=c", "GOPROXY=direct", "HOME=/home/user", "LANG=de_DE.UTF-8", "LOGNAME=uid5", "PATH=/p", "TMPDIR=/tmp", "USER=uid5"},
		},
		{
			"toolchain, offline, root",
			envRequest{Image: imageInfo{Env: []string{"PATH=/p"}, Toolchain: true}, UserName: "root", Offline: true, TmpDir: guestHomeTmp},
			[]string{"GOPROXY=off", "HOME=/home/user", "LANG=C.UTF-8", "LOGNAME=root", "PATH=/p", "TAR_OPTIONS=--no-same-owner", "TMPDIR=/home/user/.tmp", "USER=root"},
		},
		{
			"toolchain with a network",
			envRequest{Image: imageInfo{Env: []string{"PATH=/p"}, Toolchain: true}, User: commandUser{UID: 5}, UserName: "me"},
			[]string{"HOME=/home/user", "LANG=C.UTF-8", "LOGNAME=me", "PATH=/p", "TMPDIR=/tmp", "USER=me"},
		},
		{
			"image without a network",
			envRequest{Image: imageInfo{Env: []string{"PATH=/p"}}, User: commandUser{UID: 5}, UserName: "me", Offline: true},
			[]string{"HOME=/home/user", "LANG=C.UTF-8", "LOGNAME=me", "PATH=/p", "TMPDIR=/tmp", "USER=me"},
		},
	} {
		if got := commandEnv(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
