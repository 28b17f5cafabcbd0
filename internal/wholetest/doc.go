// Package wholetest runs the whole program as its users do: the binary, its
// Python processes and its store. Its test is behind the build tag whole,
// since it needs the Python side installed (`make test` installs it).
package wholetest
