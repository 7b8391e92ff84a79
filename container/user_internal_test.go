//go:build unix

package container

import (
	"errors"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/workspace"
)

func TestChooseUser(t *testing.T) {
	for _, c := range []struct {
		name string
		in   userInput
		want string
		warn string // part of the warning; "" = none
		code workspace.Code
		says string // part of the error
	}{
		{name: "caller", in: userInput{UID: 1000, GID: 100, RootUID: 7, RootGID: 8}, want: "1000:100"},
		{name: "caller in group 0", in: userInput{UID: 1000, GID: 0}, want: "1000:0"},
		{name: "root takes the owner", in: userInput{RootUID: 1000, RootGID: 1001}, want: "1000:1001"},
		{name: "root on root's", in: userInput{}, want: "0:0", warn: "--user"},
		{name: "root on root's with a group", in: userInput{RootGID: 5}, want: "0:5", warn: "as root"},
		{name: "rootless", in: userInput{UID: 1000, GID: 1000, RootUID: 1000, Rootless: true}, want: "0:0"},
		{name: "rootless with flag", in: userInput{UID: 1000, Rootless: true, Flag: "5:6"}, want: "5:6"},
		{name: "userns-remap", in: userInput{UID: 1000, Remapped: true}, code: workspace.ErrUnsupported, says: "userns-remap"},
		{name: "userns-remap with flag", in: userInput{Remapped: true, Flag: "1:1"}, code: workspace.ErrUnsupported},
		{name: "uid", in: userInput{Flag: "33"}, want: "33:33"},
		{name: "uid:gid", in: userInput{UID: 1000, Flag: "33:44"}, want: "33:44"},
		{name: "flag root", in: userInput{UID: 1000, Flag: "0:0"}, want: "0:0", warn: "--user"},
		{name: "largest", in: userInput{Flag: "4294967294"}, want: "4294967294:4294967294"},
		{name: "no change id", in: userInput{Flag: "4294967295"}, code: workspace.ErrInvalidArgument},
		{name: "name", in: userInput{Flag: "alice"}, code: workspace.ErrInvalidArgument, says: "id -u"},
		{name: "group name", in: userInput{Flag: "0:docker"}, code: workspace.ErrInvalidArgument, says: "id -u"},
		{name: "no group", in: userInput{Flag: "5:"}, code: workspace.ErrInvalidArgument},
		{name: "no user", in: userInput{Flag: ":5"}, code: workspace.ErrInvalidArgument},
		{name: "three parts", in: userInput{Flag: "5:5:5"}, code: workspace.ErrInvalidArgument},
		{name: "sign", in: userInput{Flag: "-1"}, code: workspace.ErrInvalidArgument},
		{name: "space", in: userInput{Flag: "5 "}, code: workspace.ErrInvalidArgument},
		{name: "hex", in: userInput{Flag: "0x5"}, code: workspace.ErrInvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := chooseUser(c.in)
			if c.code != "" {
				if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("got %v, %v; want %s that says %q", got, err, c.code, c.says)
				}
				return
			}
			if err != nil || got.String() != c.want {
				t.Fatalf("got %v, %v; want %s", got, err, c.want)
			}
			if (c.warn == "") != (got.Warning == "") || !strings.Contains(got.Warning, c.warn) {
				t.Fatalf("warning %q, want %q", got.Warning, c.warn)
			}
		})
	}
}
