import { exitCodeOf, watchSignals } from "../../program/signals.ts";
import type { Terminal } from "./terminal.ts";

/**
 * Says a sentence when a signal ends the process, wherever it is. The exit code is the one that a shell
 * gives to a program that the signal has ended.
 */
export function explainingSignals(terminal: Terminal, consequence?: string): Disposable {
  const watch = watchSignals();
  void watch.signal.then((name) => {
    const interrupted = `rampart: interrupted by ${name}`;
    terminal.notice(consequence === undefined ? interrupted : `${interrupted}: ${consequence}`);
    process.exit(exitCodeOf(name));
  });
  return watch;
}
