// Package web is what a server shows over HTTP: /metrics for Prometheus, health
// for orchestrators (/livez, /readyz) and for alerts (/healthz), /status as
// JSON, and one page that draws it. It changes nothing, and answers in bounded
// time whatever the store does.
package web
