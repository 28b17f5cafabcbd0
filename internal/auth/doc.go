// Package auth makes the keys, credentials and server configuration that keep
// strangers out of a run and every role to what it is for.
//
// It uses the decentralized JWTs of NATS: an operator signs accounts, a signing
// key for each role signs users, and the rights of a role are in its key, so
// that they can change without new credentials. The idea that explains the rest:
// permissions alone do not hold a client that is inside an account with streams.
// The server publishes answers wherever the reply subject of a request points,
// whoever asked, so one permitted request can write, purge or delete any stream.
// Roles that run on machines one does not trust (producer, engine, viewer) are
// therefore in an account of their own each, with nothing in it but an import
// for each thing they may ask; answers cannot leave it.
package auth
