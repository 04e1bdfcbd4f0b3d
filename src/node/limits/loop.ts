/** The event loop and its time. */
export interface Loop {
  readonly clock: () => number;
  /** Calls back once, after the event loop has read from every socket. */
  readonly afterPass: (resume: () => void) => void;
  /** Calls back once, after so many milliseconds. */
  readonly after: (milliseconds: number, resume: () => void) => void;
}

export const systemLoop: Loop = {
  clock: () => performance.now(),
  afterPass: setImmediate,
  after: (milliseconds, resume) => void setTimeout(resume, milliseconds).unref(),
};
