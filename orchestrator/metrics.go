//go:build unix

package orchestrator

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wsctl/wsctl/workspace"
)

// metrics is what is measured, in a registry of its own.
type metrics struct {
	registry *prometheus.Registry
	phase    *prometheus.HistogramVec
	commands *prometheus.CounterVec
	changes  *prometheus.CounterVec
	leaks    prometheus.Counter
	expired  *prometheus.CounterVec
	pool     *prometheus.CounterVec
	jobs     *prometheus.CounterVec
}

// Phases whose time is measured.
const (
	phaseCreate = "create" // a workspace from nothing
	phaseClaim  = "claim"  // one out of the pool
	phaseStart  = "start"  // making commands possible
	phaseExec   = "exec"   // one command
	phaseKill   = "kill"   // ending what a workspace runs
)

func newMetrics(o *Orchestrator) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		phase: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "wsctl_phase_seconds", Help: "How long a phase of the work took.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300},
		}, []string{"phase"}),
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wsctl_commands_total", Help: "Commands that have ended, by how: ok, failed, timeout, or the code of an error."}, []string{"result"}),
		changes:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wsctl_file_changes_total", Help: "Changes of files, by what, and by ok or the code of an error."}, []string{"op", "result"}),
		leaks:    prometheus.NewCounter(prometheus.CounterOpts{Name: "wsctl_leaks_found_total", Help: "Containers and roots that belonged to no workspace and were removed."}),
		expired:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wsctl_expired_total", Help: "Workspaces that were stopped or removed because their time was up."}, []string{"what"}),
		pool:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wsctl_pool_total", Help: "Creations by whether the pool had a ready workspace."}, []string{"result"}),
		jobs:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wsctl_jobs_total", Help: "Jobs that have ended, by how: ok, failed, timeout, stopped or lost."}, []string{"result"}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.registry.MustRegister(m.phase, m.commands, m.changes, m.leaks, m.expired, m.pool, m.jobs,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("wsctl_workspaces", "Workspaces there are.", func() float64 { return float64(o.count()) }),
		gauge("wsctl_pooled", "Workspaces that wait in the pool, ready.", func() float64 { return float64(o.pooled()) }),
		gauge("wsctl_running", "Workspaces that can run commands.", func() float64 { n, _, _, _ := o.budget.usage(); return float64(n) }),
		gauge("wsctl_running_memory_bytes", "What the memory limits of those add up to.", func() float64 { _, n, _, _ := o.budget.usage(); return float64(n) }),
		gauge("wsctl_running_cpus", "What their processors add up to.", func() float64 { _, _, n, _ := o.budget.usage(); return n }),
		gauge("wsctl_jobs_running", "Jobs that run.", func() float64 { return float64(o.runningJobs()) }),
		gauge("wsctl_queue_length", "Commands that wait for room.", func() float64 { _, _, _, n := o.budget.usage(); return float64(n) }),
	)
	return m
}

// took measures a phase that began then.
func (m *metrics) took(phase string, began time.Time) {
	m.phase.WithLabelValues(phase).Observe(time.Since(began).Seconds())
}

// result is a word for how something ended.
func result(err error) string {
	var e *workspace.Error
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &e):
		return string(e.Code)
	}
	return string(workspace.ErrIO)
}

// Metrics serves the measurements in the format of Prometheus.
func (o *Orchestrator) Metrics() http.Handler {
	return promhttp.HandlerFor(o.metrics.registry, promhttp.HandlerOpts{})
}
