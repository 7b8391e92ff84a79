//go:build unix

package orchestrator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// jobRecord is a job as it is kept.
type jobRecord struct {
	Job
	// Seal is the secret with which its keeper tells its end.
	Seal string `json:"seal"`
	// Token is the id of the token that it was started with.
	Token string `json:"token,omitempty"`
	// Grace is what it was started with.
	Grace time.Duration `json:"graceNs,omitempty"`
}

// putJob keeps a job, new or changed.
func (s *store) putJob(ctx context.Context, r jobRecord) error {
	record, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, "INSERT INTO jobs VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET record = excluded.record", r.ID, r.Workspace, r.Created.UnixNano(), record)
	return storeError(err)
}

func (s *store) deleteJob(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM jobs WHERE id = ?", id)
	return storeError(err)
}

// deleteJobs forgets those of a workspace.
func (s *store) deleteJobs(ctx context.Context, workspace string) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM jobs WHERE workspace = ?", workspace)
	return storeError(err)
}

// allJobs returns every job, the oldest first.
func (s *store) allJobs(ctx context.Context) ([]jobRecord, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT record FROM jobs ORDER BY created")
	if err != nil {
		return nil, storeError(err)
	}
	defer rows.Close()
	var list []jobRecord
	for rows.Next() {
		var record []byte
		var r jobRecord
		if err := rows.Scan(&record); err != nil {
			return nil, storeError(err)
		}
		if err := json.Unmarshal(record, &r); err != nil {
			return nil, workspace.Errorf(workspace.ErrCorrupt, "open", "", "the record of a job in the database: %w", err)
		}
		list = append(list, r)
	}
	return list, storeError(rows.Err())
}
