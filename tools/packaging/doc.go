// Package packaging holds no code: the systemd unit, the Dockerfile, the example
// of a configuration and the Grafana dashboard are files beside it, and its tests
// look at them.
package packaging
