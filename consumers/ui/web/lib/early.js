// Sets the chosen theme before the first paint. A classic script, so that it blocks.
try {
  const theme = localStorage.getItem("headrace-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* storage is off: the system's theme it is */ }
