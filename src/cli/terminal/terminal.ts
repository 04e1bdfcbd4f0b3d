import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { styleText } from "node:util";
import { quoted } from "./text.ts";

/** The part of a process that a terminal needs. Node's own `process` has it, and a test makes one. */
interface TerminalProcess {
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly stdout: ScreenStream;
  readonly stderr: ScreenStream;
  readonly env: NodeJS.ProcessEnv;
  exitCode?: number | string | null | undefined;
}

/** Who reads a verb's output: a person, or a script that asked for JSON. */
export interface OutputReader {
  /** Whether a script reads the answer: then notices are printed only on a terminal. */
  readonly json?: boolean | undefined;
}

/** A command to type next, and its purpose. */
export type NextCommand = readonly [command: string, reason: string];

/** How npm starts this program: by the script `rampart` of a checkout or a project, or by `npx`. */
const starts: ReadonlyMap<string, string> = new Map([
  ["rampart", "npm run -s rampart --"],
  ["npx", "npx rampart"],
]);

const verbs =
  "rampart ((?:acceptance|authority|certificate|cluster|deny|docs|doctor|issuer|kek|log|policy|root)\\b[^`\\n]*)";

/** Matches a verb in backticks, or alone on a line. Elsewhere, `rampart …` stays as it is. */
const commands = new RegExp(`(?<=\`)${verbs}(?=\`)|(?<=^ *)${verbs}$`, "gm");

/** The options by which a verb chooses a CA. */
export interface CaChoice {
  /** The file that configures it, instead of the usual one in this folder. */
  readonly config?: string;
  /** An environment of that file. */
  readonly env?: string;
  /** The deployed namespace instead of the state on this machine. */
  readonly remote?: boolean;
  /** One of `SIGNERS`, instead of the authorities that have no name. */
  readonly signer?: string;
}

/** The verbs that take the options of {@link CaChoice}, and those of them that take `--signer`. */
const verbsOfCa =
  /^(?:authority|root|deny|doctor|certificate revoked?|cluster check|kek (?:list|wrap|unwrap))\b/;
const verbsOfSigner = /^(?:authority|root|kek) /;

/** Adds the options that choose a CA to the words of a verb, unless it has them or takes none. */
export function onCa(words: string, { config, env, remote, signer }: CaChoice): string {
  if (!verbsOfCa.test(words)) return words;
  const options = [
    config === undefined ? "" : ` --config ${quoted(config)}`,
    env === undefined ? "" : ` --env ${quoted(env)}`,
    remote ? " --remote" : "",
    signer === undefined || !verbsOfSigner.test(words) ? "" : ` --signer ${quoted(signer)}`,
  ];
  return options.reduce((all, each) => (words.includes(each) ? all : all + each), words);
}

/**
 * The terminal of a verb: its streams, its environment and its clock. No verb uses `console` or `process` for these.
 * The standard output is for the answer, the standard error stream for everything else.
 */
export class Terminal implements Screen {
  /** The wall clock. */
  readonly clock: () => Date;
  readonly #process: TerminalProcess;
  readonly #slowMilliseconds: number;
  #ca: CaChoice = {};

  /** @param slowMilliseconds Work that is quicker shows no progress. */
  constructor(process: TerminalProcess, clock: () => Date, slowMilliseconds = 2000) {
    this.clock = clock;
    this.#process = process;
    this.#slowMilliseconds = slowMilliseconds;
  }

  /** The environment of the process. */
  get environment(): NodeJS.ProcessEnv {
    return this.#process.env;
  }

  /** The columns of the standard output. */
  get width(): number {
    return this.#screen(this.#process.stdout).width;
  }

  /** Whether the standard input is a terminal, so that somebody can be asked. */
  get isAttended(): boolean {
    return this.#process.stdin.isTTY ?? false;
  }

  /** Whether the standard error stream is a terminal, so that a person reads what is beside the answer. */
  get isWatched(): boolean {
    return this.#process.stderr.isTTY ?? false;
  }

  /** Styles a text for the standard output. */
  readonly styled = (meaning: Meaning, text: string): string =>
    this.#screen(this.#process.stdout).styled(meaning, text);

  /** Adds these options to the commands in all that is printed from now on. */
  nameCa(choice: CaChoice): void {
    this.#ca = choice;
  }

  /**
   * Rewrites commands in backticks, or alone on a line, as the operator types them: with the options of the CA, and by
   * npm if it started this program.
   */
  typed(text: string): string {
    const { npm_lifecycle_event: script } = this.environment;
    const start = starts.get(script ?? "") ?? "rampart";
    return text.replace(
      commands,
      (_, quoted?: string, alone = "") => `${start} ${onCa(quoted ?? alone, this.#ca)}`,
    );
  }

  /** Prints lines of the answer, with the commands in them as {@link typed} rewrites them. */
  print(lines: string): void {
    this.#process.stdout.write(`${this.typed(lines)}\n`);
  }

  /** Prints text as it is, and resolves when the system has it. @throws Error if it cannot be written. */
  write(text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** Prints the answer: as JSON for a script, or in words. */
  answer(answer: unknown, { json }: OutputReader, inWords: () => string): void {
    const typed = (_: string, value: unknown) =>
      typeof value === "string" ? this.typed(value) : value;
    // Each string is rewritten before it is encoded, because a path in the JSON would have escapes.
    if (json) this.#process.stdout.write(`${JSON.stringify(answer, typed, 2)}\n`);
    else this.print(inWords());
  }

  /** Prints lines on the standard error stream; for `json` only on a terminal. */
  notice(lines: string, { json = false }: OutputReader = {}): void {
    if (!json || this.isWatched) this.#process.stderr.write(`${this.typed(lines)}\n`);
  }

  /** Prints the CA that a verb works on, as a notice. */
  noticePlace(place: string, reader: OutputReader): void {
    this.notice(this.#said("quiet", `On the ${place}:`), reader);
  }

  /** Prints the commands that an operator may type next. */
  noticeNext(steps: readonly NextCommand[]): void {
    const lines = steps.map(
      ([command, reason]) => `  ${this.#said("heading", this.typed(command))}\n      ${reason}`,
    );
    this.notice(["", "Next:", ...lines].join("\n"));
  }

  /** Prints why a verb failed. It sets no exit code. */
  complain(sentence: string): void {
    this.notice(`${this.#said("bad", "rampart:")} ${sentence}`);
  }

  /** Asks for a line. @returns `undefined` if it is ended by Ctrl-C or Ctrl-D. */
  async ask(question: string): Promise<string | undefined> {
    const { stdin, stderr } = this.#process;
    const start = question.lastIndexOf("\n") + 1;
    stderr.write(question.slice(0, start));
    const answer = await typedLine(question.slice(start), stdin, stderr);
    if (answer === undefined) stderr.write("\n");
    return answer;
  }

  /** Asks for a line without echo. @returns `undefined` if it is ended by Ctrl-C or Ctrl-D. */
  async askSecretly(question: string): Promise<string | undefined> {
    const { stdin, stderr } = this.#process;
    const unseen = new Writable({ write: (_chunk, _encoding, done) => done() });
    // The question is printed after the prompt has turned the echo off, so that no key that is typed shows.
    const typed = typedLine("", stdin, unseen);
    stderr.write(question);
    const answer = await typed;
    stderr.write("\n");
    return answer;
  }

  /**
   * Does work, and says what it is if it takes long: on a terminal in a line that counts the seconds and is erased at
   * the end, elsewhere in one line that stays.
   * @param what Words after "still", such as "reading the deployed namespace".
   */
  async progress<T>(
    what: string,
    work: () => Promise<T>,
    { json = false }: OutputReader = {},
  ): Promise<T> {
    const { stderr } = this.#process;
    if (json && !this.isWatched) return work();
    let seconds = Math.round(this.#slowMilliseconds / 1000);
    let ticking: NodeJS.Timeout | undefined;
    const tick = (): void => {
      // The cursor goes back, so that other output overwrites this line.
      stderr.write(`${eraseLine}still ${what} (${seconds} s)\r`);
      seconds++;
    };
    const starting = setTimeout(() => {
      if (!this.isWatched) return void stderr.write(`rampart: still ${what}\n`);
      tick();
      ticking = setInterval(tick, 1000);
    }, this.#slowMilliseconds);
    try {
      return await work();
    } finally {
      clearTimeout(starting);
      clearInterval(ticking);
      if (ticking) stderr.write(eraseLine);
    }
  }

  /** Sets the exit code that the process has once the verb is over. It does not end the process. */
  exitWith(code: number): void {
    this.#process.exitCode = code;
  }

  /** Styles a text for the standard error stream. */
  readonly #said = (meaning: Meaning, text: string): string =>
    this.#screen(this.#process.stderr).styled(meaning, text);

  readonly #screen = (stream: ScreenStream): Screen =>
    screenOf(stream, this.environment as Environment);
}

const eraseLine = "\r\u001b[K";

async function typedLine(
  question: string,
  input: NodeJS.ReadableStream,
  output: NodeJS.WritableStream,
): Promise<string | undefined> {
  const terminal = createInterface({ input, output, terminal: true });
  try {
    const closed = once(terminal, "close").then(() => undefined);
    const typed = terminal.question(question).catch(() => undefined);
    return await Promise.race([typed, closed]);
  } finally {
    terminal.close();
  }
}

/** The output that a text is laid out for. */
export interface Screen {
  /** The columns of a line; infinite if the output is no terminal. */
  readonly width: number;
  /** A text in the colour of its meaning, where colours show. */
  readonly styled: (meaning: Meaning, text: string) => string;
}

/** The meaning of a style to an operator. */
export type Meaning = "good" | "warning" | "bad" | "heading" | "quiet";

const formats = {
  good: "green",
  warning: "yellow",
  bad: "red",
  heading: "bold",
  quiet: "dim",
} as const satisfies Record<Meaning, Parameters<typeof styleText>[0]>;

/** A stream that may be a terminal, with its width. */
export type ScreenStream = NodeJS.WritableStream & {
  readonly isTTY?: boolean;
  readonly columns?: number;
};

/** The environment of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Makes the screen of a stream. Node decides about colours, by NO_COLOR, FORCE_COLOR and TERM. */
export const screenOf = (stream: ScreenStream, environment: Environment): Screen => ({
  width: widthOf(stream, environment),
  styled: (meaning, text) => styleText(formats[meaning], text, { stream }),
});

/** The columns of a terminal that does not report its width. */
export const usualWidth = 100;

/** The least width to lay out for: a narrower terminal breaks lines by itself. */
const narrowest = 40;

/**
 * The columns of a stream: those of the terminal, or as many as `COLUMNS` says. For a pipe or a file they are
 * infinite, so that each row is one line for `grep` and `awk`.
 */
function widthOf({ isTTY, columns }: ScreenStream, { COLUMNS: wished }: Environment): number {
  if (wished !== undefined && /^[1-9]\d{0,4}$/.test(wished)) {
    return Math.max(Number(wished), narrowest);
  }
  if (!isTTY) return Number.POSITIVE_INFINITY;
  return columns ? Math.max(columns, narrowest) : usualWidth;
}
