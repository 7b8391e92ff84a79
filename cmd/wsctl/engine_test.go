package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/workspace"
)

// The engine is the one that docker's own client would speak to, by the user's
// configuration alone.
func TestEngineIsTheOneOfDockersClient(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		p := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	id := func(name string) string {
		sum := sha256.Sum256([]byte(name))
		return hex.EncodeToString(sum[:])
	}
	context := func(name, text string) { write(".docker/contexts/meta/"+id(name)+"/meta.json", text) }
	context("local", `{"Name":"local","Metadata":{},"Endpoints":{"docker":{"Host":"unix:///run/other.sock","SkipTLSVerify":false}}}`)
	context("remote", `{"Name":"remote","Endpoints":{"docker":{"Host":"tcp://192.0.2.1:2376"}}}`)
	write(".docker/contexts/tls/"+id("remote")+"/docker/ca.pem", "x")
	context("lax", `{"Name":"lax","Endpoints":{"docker":{"Host":"tcp://192.0.2.1:2376","SkipTLSVerify":true}}}`)
	context("empty", `{"Name":"empty","Endpoints":{}}`)
	context("broken", `{`)
	context("renamed", `{"Name":"local","Endpoints":{"docker":{"Host":"unix:///run/other.sock"}}}`)
	write(".docker/config.json", `{"currentContext":"local","auths":{}}`)
	write("other/config.json", `{"currentContext":"default"}`)
	write("bad/config.json", `no`)
	usual := environment{}.usualSocket()
	for name, c := range map[string]struct {
		env        []string
		host, cert string
		says       string
	}{
		"the configuration's":   {host: "unix:///run/other.sock"},
		"DOCKER_HOST":           {env: []string{"DOCKER_HOST=tcp://127.0.0.1:1", "DOCKER_CONTEXT=remote"}, host: "tcp://127.0.0.1:1"},
		"DOCKER_CERT_PATH":      {env: []string{"DOCKER_HOST=tcp://192.0.2.1:1", "DOCKER_CERT_PATH=/c"}, host: "tcp://192.0.2.1:1", cert: "/c"},
		"DOCKER_CONTEXT":        {env: []string{"DOCKER_CONTEXT=remote"}, host: "tcp://192.0.2.1:2376", cert: filepath.Join(home, ".docker/contexts/tls", id("remote"), "docker")},
		"default":               {env: []string{"DOCKER_CONTEXT=default"}, host: usual},
		"another configuration": {env: []string{"DOCKER_CONFIG=" + filepath.Join(home, "other")}, host: usual},
		"no configuration":      {env: []string{"DOCKER_CONFIG=/nowhere"}, host: usual},
		"no home":               {env: []string{"HOME="}, host: usual},
		"missing":               {env: []string{"DOCKER_CONTEXT=../../x"}, says: "no such context"},
		"no check":              {env: []string{"DOCKER_CONTEXT=lax"}, says: "certificate"},
		"no engine":             {env: []string{"DOCKER_CONTEXT=empty"}, says: "names no engine"},
		"broken":                {env: []string{"DOCKER_CONTEXT=broken"}, says: "mend it"},
		"of another name":       {env: []string{"DOCKER_CONTEXT=renamed"}, says: "names no engine"},
		"broken configuration":  {env: []string{"DOCKER_CONFIG=" + filepath.Join(home, "bad")}, says: "mend it"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := environment(append([]string{"HOME=" + home}, c.env...)).engine()
			switch {
			case c.says == "" && (err != nil || got.Host != c.host || got.CertDir != c.cert):
				t.Errorf("%+v, %v", got, err)
			case c.says != "" && (workspace.CodeOf(err) != workspace.ErrUnavailable || !strings.Contains(err.Error(), c.says)):
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
