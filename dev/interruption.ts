/**
 * Resolves when this process is told to end: by SIGINT, SIGTERM or SIGHUP. The handlers stay, so that a
 * second Ctrl-C does not interrupt the shutdown.
 *
 * Under npm it also resolves when the parent is gone. npm sends SIGTERM to the shell that runs a script, and
 * dash exits without passing it on.
 */
export function interruption(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => resolve());
    const { npm_lifecycle_event: npmScript } = process.env;
    if (npmScript === undefined) return;
    const parent = process.ppid;
    setInterval(() => process.ppid === parent || resolve(), 500).unref();
  });
}
