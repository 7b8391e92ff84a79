//go:build unix

package orchestrator

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/wsctl/wsctl/workspace"
)

// store is the database: what was acknowledged, on disk before it was. One
// process uses it at a time.
type store struct {
	db   *sql.DB
	lock *os.File
}

// schema is version 1. A change to it is a new version with a step from the
// one before.
const (
	schemaVersion = 1
	schema        = `
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE workspaces (
	id      TEXT PRIMARY KEY,
	name    TEXT NOT NULL UNIQUE,
	state   TEXT NOT NULL,
	used    INTEGER NOT NULL,
	record  TEXT NOT NULL
);
CREATE TABLE jobs (
	id        TEXT PRIMARY KEY,
	workspace TEXT NOT NULL,
	created   INTEGER NOT NULL,
	record    TEXT NOT NULL
);
CREATE INDEX jobs_of ON jobs (workspace, created);
`
)

// openStore opens or makes the database below dir. It is BUSY while another
// process has it: flock(2), which no crash can leave behind.
func openStore(ctx context.Context, dir string) (*store, error) {
	const op = "open"
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrIO, op, dir, "%w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, workspace.Errorf(workspace.ErrBusy, op, dir, "another server uses this directory; stop it, or give another one")
	}
	s := &store{lock: lock}
	if err := s.open(ctx, filepath.Join(dir, "state.db")); err != nil {
		s.close()
		return nil, workspace.Errorf(workspace.ErrIO, op, dir, "the database: %w", err)
	}
	return s, nil
}

func (s *store) open(ctx context.Context, file string) error {
	// A file that is made by the database itself would have the umask's mode.
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	// FULL: what was told to a caller is on disk.
	dsn := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_txlock=immediate"}).String()
	if s.db, err = sql.Open("sqlite", dsn); err != nil {
		return err
	}
	// One connection: writers would wait for each other anyhow.
	s.db.SetMaxOpenConns(1)
	var version int
	if err := s.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	switch version {
	case schemaVersion:
		return nil
	case 0:
		_, err := s.db.ExecContext(ctx, fmt.Sprintf("BEGIN; %s PRAGMA user_version = %d; COMMIT;", schema, schemaVersion))
		return err
	}
	return fmt.Errorf("it has version %d and this program knows %d; use a newer wsctl", version, schemaVersion)
}

func (s *store) close() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	return errors.Join(err, s.lock.Close())
}

// meta returns the value of a key, kept from the first time that it was asked
// for with fresh.
func (s *store) meta(ctx context.Context, key, fresh string) (value string, err error) {
	if _, err := s.db.ExecContext(ctx, "INSERT INTO meta VALUES (?, ?) ON CONFLICT DO NOTHING", key, fresh); err != nil {
		return "", err
	}
	err = s.db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = ?", key).Scan(&value)
	return value, err
}

// insert keeps a new workspace; EXISTS when the name is taken.
func (s *store) insert(ctx context.Context, w Workspace) error {
	record, err := json.Marshal(w)
	if err != nil {
		return err
	}
	done, err := s.db.ExecContext(ctx, "INSERT INTO workspaces VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", w.ID, w.Name, w.State, w.Used.UnixNano(), record)
	if err != nil {
		return storeError(err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return nameTaken(w.Name)
	}
	return nil
}

func nameTaken(name string) error {
	return workspace.Errorf(workspace.ErrExists, "create", name, "there is a workspace of this name; remove it, or give another name")
}

// update keeps what changed of a workspace.
func (s *store) update(ctx context.Context, w Workspace) error {
	record, err := json.Marshal(w)
	if err != nil {
		return err
	}
	var taken int
	if err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM workspaces WHERE name = ? AND id <> ?", w.Name, w.ID).Scan(&taken); err != nil {
		return storeError(err)
	}
	if taken > 0 {
		return nameTaken(w.Name)
	}
	_, err = s.db.ExecContext(ctx, "UPDATE workspaces SET name = ?, state = ?, used = ?, record = ? WHERE id = ?", w.Name, w.State, w.Used.UnixNano(), record, w.ID)
	return storeError(err)
}

// touch keeps when workspaces were used.
func (s *store) touch(ctx context.Context, used map[string]time.Time) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return storeError(err)
	}
	defer tx.Rollback()
	for id, at := range used {
		if _, err := tx.ExecContext(ctx, "UPDATE workspaces SET used = ? WHERE id = ?", at.UnixNano(), id); err != nil {
			return storeError(err)
		}
	}
	return storeError(tx.Commit())
}

func (s *store) delete(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM workspaces WHERE id = ?", id)
	return storeError(err)
}

// all returns every workspace.
func (s *store) all(ctx context.Context) ([]Workspace, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT used, record FROM workspaces")
	if err != nil {
		return nil, storeError(err)
	}
	defer rows.Close()
	var list []Workspace
	for rows.Next() {
		var used int64
		var record []byte
		var w Workspace
		if err := rows.Scan(&used, &record); err != nil {
			return nil, storeError(err)
		}
		if err := json.Unmarshal(record, &w); err != nil {
			return nil, workspace.Errorf(workspace.ErrCorrupt, "open", "", "a record of the database: %w", err)
		}
		w.Used = time.Unix(0, used)
		list = append(list, w)
	}
	return list, storeError(rows.Err())
}

func storeError(err error) error {
	if err == nil {
		return nil
	}
	return workspace.Errorf(workspace.ErrIO, "store", "", "the server's database: %w", err)
}
