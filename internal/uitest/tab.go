package uitest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// View is how a tab shows a page.
type View struct {
	Theme         string // "light" or "dark"
	Width, Height int64  // CSS pixels
	Scale         float64
	Phone         bool // touch, and the viewport of a phone
}

// The views that pages are looked at in.
var (
	Laptop = View{Theme: "light", Width: 1280, Height: 900, Scale: 1}
	Night  = View{Theme: "dark", Width: 1280, Height: 900, Scale: 1}
	Phone  = View{Theme: "light", Width: 360, Height: 740, Scale: 1, Phone: true}
)

// patience bounds the wait for anything a page is to show.
const patience = 20 * time.Second

// Tab is one tab of a browser that remembers everything that went wrong in it.
type Tab struct {
	ctx  context.Context
	base string

	mu     sync.Mutex
	faults []string
}

// NewTab opens a tab that shows pages below the base address; it closes with the
// returned function.
func NewTab(browser context.Context, base string, v View) (*Tab, func(), error) {
	t := &Tab{base: strings.TrimSuffix(base, "/")}
	ctx, end := chromedp.NewContext(browser, chromedp.WithListener(t.hear))
	t.ctx = ctx
	// The first call opens the tab, which lives as long as that call's context.
	if err := chromedp.Do(ctx, chromedp.Func(listen), show(v)); err != nil {
		end()
		return nil, nil, fmt.Errorf("open a tab: %w", err)
	}
	return t, end, nil
}

// listen asks the browser to tell of requests and of what goes wrong.
func listen(ctx context.Context, t *chromedp.Target) error {
	_, err1 := cdp.Call(ctx, t, network.Enable, network.EnableParams{})
	_, err2 := cdp.Call(ctx, t, log.Enable, cdp.Empty{})
	_, err3 := cdp.Call(ctx, t, runtime.Enable, cdp.Empty{})
	return errors.Join(err1, err2, err3)
}

func show(v View) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err1 := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: v.Width, Height: v.Height, DeviceScaleFactor: v.Scale, Mobile: v.Phone})
		_, err2 := cdp.Call(ctx, t, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: v.Phone})
		_, err3 := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: v.Theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
		return errors.Join(err1, err2, err3)
	})
}

// hear keeps what a developer would see in red or yellow.
func (t *Tab) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		t.fault("exception: %s", e.ExceptionDetails.Text+" "+thrown(e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			t.fault("console %s: %s", e.Type, spoken(e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			t.fault("log %s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventLoadingFailed:
		if !e.Canceled { // a page that is left lets go of its requests
			t.fault("request failed: %s %s", e.Type, e.ErrorText)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			t.fault("status %d: %s", e.Response.Status, e.Response.URL)
		}
	}
}

func thrown(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return o.Description
}

func spoken(args []*runtime.RemoteObject) string {
	var words []string
	for _, a := range args {
		words = append(words, strings.Trim(string(a.Value), `"`)+a.Description)
	}
	return strings.Join(words, " ")
}

func (t *Tab) fault(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, fmt.Sprintf(format, args...))
}

// Faults hands over what went wrong since it was last asked.
func (t *Tab) Faults() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	faults := t.faults
	t.faults = nil
	return faults
}

// in does one thing in the tab, in a bounded time.
func in[T any](t *Tab, a chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, a)
}

func (t *Tab) do(a chromedp.Action[chromedp.Void]) error {
	_, err := in(t, a)
	return err
}

// Call sends a command of the browser's own protocol to the tab.
func Call[P, R any](t *Tab, c cdp.Command[P, R], params P) (R, error) {
	return in(t, func(ctx context.Context, target *chromedp.Target) (R, error) { return cdp.Call(ctx, target, c, params) })
}

// Show changes the view.
func (t *Tab) Show(v View) error { return t.do(show(v)) }

// Open goes to an address below the base, as typed into the address bar.
func (t *Tab) Open(path string) error {
	if err := t.do(chromedp.Navigate(t.base + path)); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	return nil
}

// Path is the address of what is shown, below the base.
func (t *Tab) Path() string {
	at, err := in(t, chromedp.Location())
	if err != nil {
		return err.Error()
	}
	return strings.TrimPrefix(at, t.base)
}

// See waits until the page's JavaScript expression is true.
func (t *Tab) See(what, expression string) error {
	wait := chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingTimeout(patience-time.Second), chromedp.WithPollingInterval(20*time.Millisecond))
	if _, err := in(t, wait); err != nil {
		return fmt.Errorf("wait to see %s at %s: %w", what, t.Path(), err)
	}
	return nil
}

// Click clicks the first element that fits a CSS selector, once it can be seen.
func (t *Tab) Click(selector string) error {
	if err := t.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible)); err != nil {
		return fmt.Errorf("click %s at %s: %w", selector, t.Path(), err)
	}
	return nil
}

// Press presses keys on what has the focus.
func (t *Tab) Press(keys ...string) error {
	for _, k := range keys {
		if err := t.do(chromedp.KeyEvent(k)); err != nil {
			return fmt.Errorf("press %q at %s: %w", k, t.Path(), err)
		}
	}
	return nil
}

// Keys without a letter, for [Tab.Press].
const (
	Tabulator = kb.Tab
	Enter     = kb.Enter
	Right     = kb.ArrowRight
	End       = kb.End
)

// Ask evaluates a JavaScript expression, a promise too.
func Ask[T any](t *Tab, expression string) (T, error) {
	return in(t, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Picture is a PNG of what the view shows of the page.
func (t *Tab) Picture() ([]byte, error) { return in(t, chromedp.CaptureScreenshot()) }
