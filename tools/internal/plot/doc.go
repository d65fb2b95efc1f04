// Package plot draws line charts as SVG, with what that format has and no
// library: a picture of a benchmark needs axes, lines and their names.
package plot
