package auth

import (
	"fmt"
	"slices"
	"strings"
)

// Role is what a credential is for.
type Role string

// The roles.
const (
	Admin    Role = "admin"    // makes and deletes runs; may do everything
	Grouper  Role = "grouper"  // decides: reads all, writes LEDGER and TASKS
	Trainer  Role = "trainer"  // the bridge: reads all, writes WEIGHTS and DEADLETTER
	Engine   Role = "engine"   // the sidecar: reads WEIGHTS, acknowledges versions
	Producer Role = "producer" // leases tasks, publishes trajectories under its own name
	Viewer   Role = "viewer"   // reads all but the lease key
)

// Roles lists every role.
func Roles() []Role { return []Role{Admin, Grouper, Trainer, Engine, Producer, Viewer} }

// ParseRole is the role of that name.
func ParseRole(name string) (Role, error) {
	if r := Role(name); slices.Contains(Roles(), r) {
		return r, nil
	}
	var names []string
	for _, r := range Roles() {
		names = append(names, string(r))
	}
	return "", fmt.Errorf("role %q: want one of %s", name, strings.Join(names, ", "))
}

// apart reports whether each credential of the role is an account of its own.
func (r Role) apart() bool { return r == Producer || r == Engine || r == Viewer }

// bound reports whether a credential of the role is for one run.
func (r Role) bound() bool { return r != Admin }
