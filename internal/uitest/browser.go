package uitest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/chromedp/chromedp"
)

// ErrNoBrowser is what [Find] says when there is nothing to look through.
var ErrNoBrowser = errors.New("no Chromium found: install the distribution's package (apt-get install chromium), or name one in HEADRACE_CHROMIUM")

// Find is the path of a Chromium: HEADRACE_CHROMIUM, or the first of the names
// that distributions give it.
func Find() (string, error) {
	if named := os.Getenv("HEADRACE_CHROMIUM"); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("HEADRACE_CHROMIUM is %q, which cannot be started: %w", named, err)
		}
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoBrowser
}

// quiet keeps the browser from calling anybody but the page's server.
var quiet = []chromedp.ExecAllocatorOption{
	chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.DisableGPU, chromedp.NoSandbox,
	chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
	chromedp.Flag("disable-sync", true), chromedp.Flag("disable-default-apps", true), chromedp.Flag("disable-extensions", true),
	chromedp.Flag("disable-features", "Translate,OptimizationHints,MediaRouter"), chromedp.Flag("metrics-recording-only", true),
	chromedp.Flag("hide-scrollbars", true), chromedp.Flag("mute-audio", true), chromedp.Flag("disable-dev-shm-usage", true),
	chromedp.Flag("enable-precise-memory-info", true), chromedp.WSURLReadTimeout(time.Minute),
}

// Start starts a browser that ends with the context or the returned function.
func Start(ctx context.Context) (context.Context, func(), error) {
	path, err := Find()
	if err != nil {
		return nil, nil, err
	}
	options := append([]chromedp.ExecAllocatorOption{chromedp.ExecPath(path)}, quiet...)
	alloc, endAlloc := chromedp.NewExecAllocator(ctx, options...)
	browser, endBrowser := chromedp.NewContext(alloc)
	end := func() { endBrowser(); endAlloc() }
	if err := chromedp.Do(browser); err != nil {
		end()
		return nil, nil, fmt.Errorf("start %s: %w", path, err)
	}
	return browser, end, nil
}
