import { PassThrough, Writable } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import type { Command } from "commander";
import { runCommand } from "../../../src/cli/rampart.ts";
import type { Screen } from "../../../src/cli/terminal/terminal.ts";
import { Terminal } from "../../../src/cli/terminal/terminal.ts";

interface MemoryTerminalOptions {
  readonly environment?: Readonly<Record<string, string>>;
  readonly clock?: () => Date;
  /** Whether it is a terminal and no pipe, at which {@link MemoryTerminal.type} types. */
  readonly isTTY?: boolean;
  readonly columns?: number;
  /** Quicker work shows no progress. */
  readonly slowMilliseconds?: number;
}

/** A terminal that remembers what it has shown. Unless told otherwise, it is a pipe in an empty environment. */
export class MemoryTerminal extends Terminal {
  readonly #parts: ReturnType<typeof partsOf>;

  constructor(options: MemoryTerminalOptions = {}) {
    const parts = partsOf(options);
    super(parts, options.clock ?? (() => new Date()), options.slowMilliseconds);
    this.#parts = parts;
  }

  /** A terminal on which `rampart` has run with these words. @param keys What somebody has typed meanwhile. */
  static async ran(
    words: readonly string[],
    { keys = "", ...options }: MemoryTerminalOptions & { readonly keys?: string } = {},
  ): Promise<MemoryTerminal> {
    const terminal = new MemoryTerminal(options);
    terminal.type(keys);
    await runCommand([...words], terminal);
    return terminal;
  }

  get printed(): string {
    return this.#parts.stdout.text;
  }

  get said(): string {
    return this.#parts.stderr.text;
  }

  get exitCode(): number | string | null | undefined {
    return this.#parts.exitCode;
  }

  /** Sets a variable of the environment, or removes it. */
  setVariable(name: string, value: string | undefined): void {
    if (value === undefined) delete this.environment[name];
    else this.environment[name] = value;
  }

  type(keys: string): void {
    this.#parts.stdin.write(keys);
  }

  /** Ends the input, as a terminal does whose window is closed. */
  leave(): void {
    this.#parts.stdin.end();
  }

  /** Runs a verb, whose exit code is that of this run. @returns What it prints. @throws what the verb throws. */
  async run(noun: (terminal: Terminal) => Command, words: readonly string[]): Promise<string> {
    this.#parts.exitCode = undefined;
    const before = this.printed.length;
    const command = noun(this);
    for (const each of [command, ...command.commands]) {
      each.exitOverride().configureOutput({ writeErr: (text) => this.notice(text.trimEnd()) });
    }
    await command.parseAsync([...words], { from: "user" });
    return stripVTControlCharacters(this.printed.slice(before)).replace(/\n$/, "");
  }
}

class Shown extends Writable {
  text = "";
  readonly isTTY: boolean;
  readonly columns: number;

  constructor({ isTTY = false, columns = 0 }: MemoryTerminalOptions) {
    super({ decodeStrings: false });
    this.isTTY = isTTY;
    this.columns = columns;
  }

  override _write(text: string, _encoding: string, done: () => void): void {
    this.text += text;
    done();
  }
}

const partsOf = (options: MemoryTerminalOptions) => ({
  stdin: Object.assign(new PassThrough(), { isTTY: options.isTTY ?? false }),
  stdout: new Shown(options),
  stderr: new Shown(options),
  env: { ...options.environment } as NodeJS.ProcessEnv,
  exitCode: undefined as number | string | null | undefined,
});

/** A screen without colours; by default, nobody breaks its lines. */
export const plainScreen = (width: number = Number.POSITIVE_INFINITY): Screen => ({
  width,
  styled: (_meaning, text) => text,
});
