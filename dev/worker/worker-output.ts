import { stripVTControlCharacters } from "node:util";

/** How wrangler frames the log lines that a Worker gives to console.warn and console.error. */
const frame = /^(?:▲ \[WARNING\]|✘ \[ERROR\]) (?=\{)/;

const rememberedLines = 100;

/**
 * Filters wrangler's output. The Worker's own log lines are JSON objects, and always shown. Other lines
 * that come before wrangler is ready are kept back, and shown only when the start fails. After that every
 * line but the access log is shown: an exception, a failed build, a reload.
 */
export class WorkerOutput {
  readonly #showLine: (line: string) => void;
  readonly #unshown: string[] = [];
  #isReady = false;
  #isMuted = false;

  constructor(showLine: (line: string) => void) {
    this.#showLine = showLine;
  }

  take(decorated: string): void {
    const line = stripVTControlCharacters(decorated).trimEnd().replace(frame, "");
    const isShown = this.#isReady && !this.#isMuted && !line.startsWith("[wrangler:info]");
    if (line === "") return;
    if (isShown || line.startsWith("{")) this.#showLine(line);
    else this.#unshown.push(line);
    this.#unshown.splice(0, this.#unshown.length - rememberedLines);
    this.#isReady ||= line.startsWith("[wrangler:info] Ready");
  }

  /** Shows only the Worker's own lines from now on: a tool that is killed prints errors. */
  mute(): void {
    this.#isMuted = true;
  }

  /** The latest lines that were kept back. */
  unshown(): string {
    return this.#unshown.join("\n");
  }
}
