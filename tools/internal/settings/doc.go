// Package settings holds what a server may be told: one flag each, which may
// also come from the environment (SEALSTONE_NAME) or from a TOML file, where it
// has the name of the flag. A flag goes before the environment, that before the
// file, that before the default; Resolved says where each value came from.
package settings
