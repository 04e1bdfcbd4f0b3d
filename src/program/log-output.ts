import { OperationalEvent, type WriteLine } from "../foundation/events.ts";

/** The standard streams of a process, on which a server writes its log. */
interface Streams {
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
}

/** Writes the lines of a server's log, and counts those that are lost. */
export interface LogOutput {
  readonly write: WriteLine;
  /** How many lines have been lost since the start. */
  readonly lostLines: () => number;
  /** Why the latest line of a stream could not be written; `undefined` while every stream takes lines. */
  readonly fault: () => string | undefined;
}

/** Opens the log of a server. */
export const LogOutput = {
  /**
   * Writes the log of a server on the standard streams: info on the standard output, the rest on the standard error.
   *
   * A server continues without its log. A line that cannot be written, because the reader is gone, the reader of a pipe
   * has stalled or the disk is full, is dropped and counted. Once the stream takes lines again, `log-lines-lost` says
   * how many there were. From the first call on, a fault of these streams does not end the process.
   */
  open({ stdout, stderr }: Streams, clock: () => Date): LogOutput {
    const out = new LineStream(stdout, clock);
    const err = stderr === stdout ? out : new LineStream(stderr, clock);
    return {
      write: (line, level) => (level === "info" ? out : err).write(line),
      lostLines: () => out.lost + (err === out ? 0 : err.lost),
      fault: () => out.fault ?? err.fault,
    };
  },
};

/** Node does not wait for the reader of a pipe: without a limit it would hold all lines in memory. */
const maximumUnreadOctets = 1 << 20;

class LineStream {
  readonly #stream: NodeJS.WriteStream;
  readonly #clock: () => Date;
  lost = 0;
  fault: string | undefined;
  #untold = 0;

  constructor(stream: NodeJS.WriteStream, clock: () => Date) {
    this.#stream = stream;
    this.#clock = clock;
    // A listener of the terminal ends the process if stdout cannot be written. This program goes on, and counts lost lines.
    stream.removeAllListeners("error").on("error", () => {});
  }

  write(line: string): void {
    if (this.#isFull) {
      this.#lose("its reader has stalled", 1);
      return;
    }
    const told = this.#untold;
    this.#untold = 0;
    // A newline first, because a full disk may have cut the last line short.
    const report = told === 0 ? "" : `\n${this.#reportOf(told)}\n`;
    this.#stream.write(`${report}${line}\n`, (error) => {
      if (error) this.#lose(error.message, told + 1);
      else if (!this.#isFull) this.fault = undefined;
    });
  }

  get #isFull(): boolean {
    return this.#stream.writableLength > maximumUnreadOctets;
  }

  /** @param untold How many lines the next report has to count, including those of a report that was lost. */
  #lose(why: string, untold: number): void {
    this.fault = `lines of the log are lost: ${why}`;
    this.lost++;
    this.#untold += untold;
  }

  #reportOf(lines: number): string {
    const detail = `${lines} lines of this log could not be written before this one`;
    const event = { event: "log-lines-lost", lines, detail } as const;
    return OperationalEvent.formatLine(this.#clock(), "warning", event);
  }
}
