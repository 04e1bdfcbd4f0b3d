/** A stream for progress, such as the standard error stream. */
export interface ProgressStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Where and when progress shows. */
export interface ProgressOptions {
  /** Whether a script reads the answer: then only a terminal gets progress. */
  readonly json?: boolean | undefined;
  readonly stream?: ProgressStream;
  /** Quicker work shows nothing. */
  readonly afterMilliseconds?: number;
}

const eraseLine = "\r\u001b[K";

/**
 * Does work, and says on the standard error stream what it is if it takes long: in a line that counts the
 * seconds and goes away on a terminal, in one line that stays elsewhere.
 *
 * @param what Words after "still", such as "reading the deployed namespace".
 */
export async function withProgress<T>(
  what: string,
  work: () => Promise<T>,
  { json = false, stream = process.stderr, afterMilliseconds = 2000 }: ProgressOptions = {},
): Promise<T> {
  const isTerminal = stream.isTTY ?? false;
  if (json && !isTerminal) return work();
  let seconds = Math.round(afterMilliseconds / 1000);
  let ticking: NodeJS.Timeout | undefined;
  const tick = (): void => {
    // The cursor goes back, so that a line of somebody else takes the place of this one.
    stream.write(`${eraseLine}still ${what} (${seconds} s)\r`);
    seconds++;
  };
  const starting = setTimeout(() => {
    if (isTerminal) {
      tick();
      ticking = setInterval(tick, 1000);
    } else {
      stream.write(`rampart: still ${what}\n`);
    }
  }, afterMilliseconds);
  try {
    return await work();
  } finally {
    clearTimeout(starting);
    clearInterval(ticking);
    if (ticking) stream.write(eraseLine);
  }
}
