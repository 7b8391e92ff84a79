package keeper_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wsctl/wsctl/keeper"
)

// release builds the keeper as it is shipped: the test binary is much larger, and
// slower to start.
func release(b *testing.B) string {
	b.Helper()
	binary := filepath.Join(b.TempDir(), keeper.Name)
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "github.com/wsctl/wsctl/cmd/wskeeper")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return binary
}

// BenchmarkTrue is a command that does nothing, on a keeper that waits.
func BenchmarkTrue(b *testing.B) {
	l := serveFrom(b, release(b), keeper.Name, keeper.ModeServe)
	req := shell("true")
	took := make([]time.Duration, 0, 1<<16)
	for b.Loop() {
		begin := time.Now()
		r, err := l.Start(context.Background(), req, keeper.Streams{})
		check(b, err)
		if _, err := r.Wait(context.Background()); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}

// BenchmarkRawTrue is the same command without a keeper.
func BenchmarkRawTrue(b *testing.B) {
	for b.Loop() {
		check(b, exec.Command("/bin/sh", "-c", "true").Run())
	}
}

// BenchmarkServeStart is a keeper from its start until its first command is over.
func BenchmarkServeStart(b *testing.B) {
	binary := release(b)
	for b.Loop() {
		l := serveFrom(b, binary, keeper.Name, keeper.ModeServe)
		l.run(b, shell("true"), nil)
		check(b, l.Close())
		<-l.Gone()
	}
}

// BenchmarkBulk is stdout at full speed: raw is a pipe without a keeper.
func BenchmarkBulk(b *testing.B) {
	const size = 256 << 20
	line := "head -c 268435456 /dev/zero"
	b.Run("keeper", func(b *testing.B) {
		l := serveFrom(b, release(b), keeper.Name, keeper.ModeServe)
		b.SetBytes(size)
		for b.Loop() {
			r := l.start(b, shell(line), keeper.Streams{Stdout: io.Discard})
			_, err := r.Wait(deadline(b))
			check(b, err)
		}
	})
	b.Run("raw", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			cmd := exec.Command("/bin/sh", "-c", line)
			out, err := cmd.StdoutPipe()
			check(b, err)
			check(b, cmd.Start())
			_, err = io.Copy(struct{ io.Writer }{io.Discard}, out)
			check(b, err)
			check(b, cmd.Wait())
		}
	})
}
