// Package cputime tells processor time: of this process, and of a piece of
// work within it that is to be counted apart.
package cputime
