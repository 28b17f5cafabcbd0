package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/headrace/headrace/internal/uitest"
)

// shot is one picture.
type shot struct {
	file, path string
	views      []string // light, dark, phone
	height     int64    // of the laptop's view
	ready      string   // a JavaScript expression that is true once there is something to see
	pose       string   // JavaScript that is run before the picture is taken
}

var views = map[string]uitest.View{
	"light": {Theme: "light", Width: 1280, Height: 820, Scale: 1},
	"dark":  {Theme: "dark", Width: 1280, Height: 820, Scale: 1},
	"phone": {Theme: "dark", Width: 390, Height: 820, Scale: 1, Phone: true},
}

// posed shows a token and its neighbours by how likely they were.
const posed = `(async () => {
	document.querySelector("input[value=logprob]").click();
	const text = document.querySelector(".token-text");
	await new Promise((r) => setTimeout(r, 300));
	["p4", "p3", "p2", "p1", "p0"].map((p) => text.querySelector("b." + p)).find((b) => b)?.click(); // the least likely
	return true;
})()`

func shots(run, group, trajectory, other string) []shot {
	at := "/r/" + url.PathEscape(run)
	return []shot{
		{"ui-run", at, []string{"light", "dark", "phone"}, 1000, `document.querySelectorAll("main .grid section").length > 5`, ""},
		{"ui-groups", at + "/groups", []string{"light"}, 820, `document.querySelector(".group-list a.open")`, ""},
		{"ui-group", at + "/g/" + group, []string{"light", "phone"}, 820, `document.querySelector(".column .talk")`, ""},
		{"ui-trajectory", at + "/t/" + trajectory, []string{"light", "dark"}, 820, `document.querySelector(".token-text b")`, posed},
		{"ui-diff", at + "/diff/" + trajectory + "/" + other, []string{"light"}, 820, `document.querySelector(".turn-diff")`, ""},
	}
}

func pictures(ctx context.Context, address, run, group, only, out string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	browser, end, err := uitest.Start(ctx)
	if err != nil {
		return err
	}
	defer end()
	token := u.RequestURI()
	u.RawQuery, u.Path = "", ""
	tab, closeTab, err := uitest.NewTab(browser, u.String(), views["light"])
	if err != nil {
		return err
	}
	defer closeTab()
	if err := tab.Open(token); err != nil { // leaves its cookie
		return err
	}
	group, members, err := choose(tab, run, group)
	if err != nil {
		return err
	}
	for _, s := range shots(run, group, members[0], members[len(members)-1]) {
		for _, view := range s.views {
			if !strings.HasPrefix(s.file+"-"+view, only) {
				continue
			}
			if err := take(tab, s, view, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// choose finds a group worth showing, and its trajectories, best first.
func choose(tab *uitest.Tab, run, group string) (string, []string, error) {
	const ask = `(async (run, group) => {
		const get = async (path) => (await fetch(new URL("api/runs/" + run + path, document.baseURI))).json();
		for (let tries = 0; !group && tries < 100; tries++) { // until the server has read the run
			const {groups = [], indexed = {}} = await get("/groups?outcome=kept&sort=std&limit=1");
			if (indexed.trajectories > 0 && indexed.trajectories >= indexed.of) group = groups[0]?.group ?? "";
			await new Promise((r) => setTimeout(r, 100));
		}
		const {members = []} = group ? await get("/groups/" + group) : {};
		return [group, ...members.map((m) => m.id)];
	})(%q, %q)`
	found, err := uitest.Ask[[]string](tab, fmt.Sprintf(ask, url.PathEscape(run), group))
	if err != nil {
		return "", nil, err
	}
	if len(found) < 2 {
		return "", nil, fmt.Errorf("run %s has no group that was kept: wait for its first step, or say --group", run)
	}
	return found[0], found[1:], nil
}

func take(tab *uitest.Tab, s shot, view, out string) error {
	v := views[view]
	if !v.Phone {
		v.Height = s.height
	}
	if err := tab.Show(v); err != nil {
		return err
	}
	if err := tab.Open(s.path); err != nil {
		return err
	}
	if err := tab.See(s.file, s.ready); err != nil {
		return err
	}
	pose := s.pose
	if pose == "" {
		pose = `new Promise((r) => setTimeout(() => r(true), 1500))` // charts draw, the first events come
	}
	if _, err := uitest.Ask[bool](tab, pose); err != nil {
		return err
	}
	raw, err := tab.Picture()
	if err != nil {
		return err
	}
	small, err := shrink(raw)
	if err != nil {
		return err
	}
	path := filepath.Join(out, s.file+"-"+view+".png")
	fmt.Printf("%s  %d kB (%d as taken)\n", path, len(small)/1000, len(raw)/1000)
	return os.WriteFile(path, small, 0o644) //nolint:gosec // a picture of the documentation
}
