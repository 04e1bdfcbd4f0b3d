/**
 * Resolves when this process is asked to end: by Ctrl-C, a polite kill or a closed terminal. The
 * handlers stay afterwards, so that a second Ctrl-C does not cut the end short.
 *
 * Under npm, also when the parent is gone: npm passes SIGTERM to the shell that it runs scripts in,
 * and dash dies of it without telling its child.
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
