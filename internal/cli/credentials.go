package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// roleOf is the role whose credentials a command that takes part needs.
var roleOf = map[string]string{"runs create": "admin", "produce": "producer", "group": "grouper", "bridge": "trainer", "engine": "engine"}

// fits refuses credentials that the server would refuse later, in more words:
// those of another run, or of another role. Credentials that say neither fit.
func fits(id bus.Identity, command string, run subjects.Run) error {
	want := roleOf[command]
	switch {
	case id.Run != "" && id.Run != run:
		return usageError{fmt.Errorf("these are the credentials of %s: run %s needs its own (--creds; headrace auth add makes more)", id, run)}
	case id.Role != "" && id.Role != "admin" && want != "" && id.Role != want:
		return usageError{fmt.Errorf("these are the credentials of %s: headrace %s needs those of the role %s (--creds)", id, command, want)}
	}
	return nil
}

// speaks refuses a name under which the server would not let the holder speak.
func speaks(id bus.Identity, name string) error {
	if id.Role == "" || id.Role == "admin" || id.Name == name {
		return nil
	}
	return usageError{fmt.Errorf("--name %s: these are the credentials of %s, who speaks under no other name; leave out --name", name, id)}
}

// advised adds to a permission that is missing what to do.
func advised(err error) error {
	if errors.Is(err, bus.ErrPermission) && strings.Contains(err.Error(), " may not ") {
		return fmt.Errorf("%w; use the credentials of a role that may (--creds, NATS_CREDS; headrace auth ls lists them)", err)
	}
	return err
}
