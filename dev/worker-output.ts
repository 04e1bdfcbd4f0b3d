import { stripVTControlCharacters } from "node:util";

/** How wrangler frames the log lines that a Worker gives to console.warn and console.error. */
const frame = /^(?:▲ \[WARNING\]|✘ \[ERROR\]) (?=\{)/;

const rememberedLines = 100;

/**
 * Wrangler's output, taken apart. The Worker's own log lines are JSON objects and always shown.
 * Of the rest, what comes before wrangler is ready is its introduction, of use only when it fails;
 * from then on everything but its access log is news: an exception, a build that fails, a reload.
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
    const isNews = this.#isReady && !this.#isMuted && !line.startsWith("[wrangler:info]");
    if (line === "") return;
    if (isNews || line.startsWith("{")) this.#showLine(line);
    else this.#unshown.push(line);
    this.#unshown.splice(0, this.#unshown.length - rememberedLines);
    this.#isReady ||= line.startsWith("[wrangler:info] Ready");
  }

  /** From now on only the Worker's own lines: tools that are killed have last words. */
  mute(): void {
    this.#isMuted = true;
  }

  /** The last of what was not shown as it came. */
  unshown(): string {
    return this.#unshown.join("\n");
  }
}
