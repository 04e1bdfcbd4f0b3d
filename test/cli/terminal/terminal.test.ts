import { setTimeout as pause } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import { describe, expect, test } from "vitest";
import { readPassphrase } from "../../../src/cli/terminal/questions.ts";
import type { CaChoice } from "../../../src/cli/terminal/terminal.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";
import { eventually } from "../../testkit/time/eventually.ts";

describe("the answer of a verb", () => {
  test("goes to the standard output, and what is beside it to the standard error stream", () => {
    const terminal = new MemoryTerminal();
    terminal.print("answer");
    terminal.noticePlace("files in /store", {});
    terminal.noticeNext([["rampart doctor", "looks for faults"]]);
    terminal.complain("it failed");
    expect(terminal.printed).toBe("answer\n");
    expect(terminal.said).toBe(
      "On the files in /store:\n\nNext:\n  rampart doctor\n      looks for faults\nrampart: it failed\n",
    );
  });

  test.each([
    [false, ""],
    [true, "On the store:\n"],
  ])("for a script has a notice beside it only on a terminal (%s)", (isTTY, said) => {
    const terminal = new MemoryTerminal({ isTTY });
    terminal.noticePlace("store", { json: true });
    expect(stripVTControlCharacters(terminal.said)).toBe(said);
  });
});

describe("a command of this program", () => {
  const said = (script?: string): string => {
    const environment = script === undefined ? {} : { npm_lifecycle_event: script };
    const terminal = new MemoryTerminal({ environment });
    terminal.noticeNext([["rampart doctor", "is not `rampart serve`"]]);
    terminal.complain("make one: `rampart kek new k1`");
    terminal.print("To prevent that:\n  rampart deny add ns/a/sa/b\nthrough rampart log");
    return terminal.said + terminal.printed;
  };
  const words = (start: string): string => `
Next:
  ${start} doctor
      is not \`rampart serve\`
rampart: make one: \`${start} kek new k1\`
To prevent that:
  ${start} deny add ns/a/sa/b
through rampart log
`;

  test.each([
    [undefined, "rampart"],
    ["start", "rampart"],
    ["npx", "npx rampart"],
    ["rampart", "npm run -s rampart --"],
  ])("under npm's script %s is typed as %s", (script, start) => {
    expect(said(script)).toBe(words(start));
  });
});

describe("a command on a CA", () => {
  const typed = (choice: CaChoice, ...lines: readonly string[]): string => {
    const terminal = new MemoryTerminal();
    terminal.nameCa(choice);
    return terminal.typed(terminal.typed(lines.join("\n")));
  };

  test.each<[CaChoice, string]>([
    [{}, ""],
    [{ config: "ca/rampart.toml" }, " --config ca/rampart.toml"],
    [{ config: "it's mine.toml" }, " --config 'it'\\''s mine.toml'"],
    [{ env: "test", remote: true }, " --env test --remote"],
    [{ signer: "mesh-b" }, " --signer mesh-b"],
  ])("chosen by %j has these options, once", (choice, options) => {
    expect(typed(choice, "rampart authority plan", "type `rampart root list`")).toBe(
      `rampart authority plan${options}\ntype \`rampart root list${options}\``,
    );
  });

  test("has no option that its verb does not take", () => {
    const words = [
      "rampart doctor",
      "rampart deny list",
      "rampart kek new k1",
      "rampart log check",
    ];
    expect(typed({ signer: "mesh-b" }, ...words)).toBe(words.join("\n"));
    expect(typed({ remote: true }, ...words)).toBe(
      "rampart doctor --remote\nrampart deny list --remote\nrampart kek new k1\nrampart log check",
    );
  });

  test("is whole in JSON, whatever the path", () => {
    const terminal = new MemoryTerminal();
    terminal.nameCa({ config: 'a"b' });
    terminal.answer({ remedy: "`rampart doctor`" }, { json: true }, () => "");
    expect(JSON.parse(terminal.printed)).toEqual({ remedy: "`rampart doctor --config 'a\"b'`" });
  });
});

describe("a question", () => {
  /** The answer to a question on a terminal on which somebody types these keys, and what is shown. */
  async function typed(keys: string): Promise<readonly [string | undefined, string]> {
    const terminal = new MemoryTerminal({ isTTY: true });
    const answer = terminal.ask("Sure? ");
    terminal.type(keys);
    return [await answer, terminal.said];
  }

  test.each([
    ["yes", "yes\r", "yes"],
    ["nothing", "\r", ""],
    ["a line after a correction", "yea\x7fs\r", "yes"],
  ])("gives %s that somebody typed", async (_, keys, answer) => {
    const [given, shown] = await typed(keys);
    expect(given).toBe(answer);
    expect(shown).toContain("Sure? ");
  });

  test.each([
    ["Ctrl-C", "\x03"],
    ["Ctrl-C after a word", "yes\x03"],
    ["Ctrl-D", "\x04"],
  ])("gives no answer for %s", async (_, keys) => {
    expect((await typed(keys))[0]).toBeUndefined();
  });

  test("gives no answer when the terminal goes away", async () => {
    const terminal = new MemoryTerminal({ isTTY: true });
    const answer = terminal.ask("Sure? ");
    terminal.leave();
    expect(await answer).toBeUndefined();
  });
});

describe("a passphrase", () => {
  test("is typed without echo, and twice if it is new", async () => {
    const terminal = new MemoryTerminal({ isTTY: true });
    const passphrase = readPassphrase(terminal, { isNew: true });
    terminal.type("correct horse battery\r");
    await eventually(async () => expect(terminal.said).toContain("Repeat it: "));
    terminal.type("correct horse battery\r");
    expect(await passphrase).toBe("correct horse battery");
    expect(terminal.said).toBe("Passphrase: \nRepeat it: \n");
  });

  test("comes from the environment where it is set, and a new one has 12 characters", async () => {
    const terminal = new MemoryTerminal({ environment: { RAMPART_PASSPHRASE: "short" } });
    expect(await readPassphrase(terminal, { isNew: false })).toBe("short");
    await expect(readPassphrase(terminal, { isNew: true })).rejects.toThrow(/12 characters/);
  });

  test("cannot be typed without a terminal", async () => {
    const reading = readPassphrase(new MemoryTerminal(), { isNew: false });
    await expect(reading).rejects.toThrow(/set RAMPART_PASSPHRASE$/);
  });
});

describe("work that takes long", () => {
  const said = (terminal: MemoryTerminal) => () =>
    eventually(async () => expect(terminal.said).not.toBe(""));

  test("is told of once in a line that stays, and its result is the work's", async () => {
    const terminal = new MemoryTerminal({ slowMilliseconds: 0 });
    const work = () => said(terminal)().then(() => "done");
    expect(await terminal.progress("reading", work)).toBe("done");
    expect(terminal.said).toBe("rampart: still reading\n");
  });

  test("is counted in a line of a terminal, which is gone when the work is done", async () => {
    const terminal = new MemoryTerminal({ slowMilliseconds: 0, isTTY: true });
    await terminal.progress("reading", said(terminal), { json: true });
    expect(terminal.said.startsWith("\r\u001b[Kstill reading (0 s)\r")).toBe(true);
    expect(terminal.said.endsWith("\r\u001b[K")).toBe(true);
  });

  test("leaves no line on a terminal when it fails, either", async () => {
    const terminal = new MemoryTerminal({ slowMilliseconds: 0, isTTY: true });
    const work = async (): Promise<never> => {
      await said(terminal)();
      throw new Error("no");
    };
    await expect(terminal.progress("reading", work)).rejects.toThrow("no");
    expect(terminal.said.endsWith("\r\u001b[K")).toBe(true);
  });

  test.each([
    ["quick work", { slowMilliseconds: 60_000 }, {}],
    ["a script that reads JSON", { slowMilliseconds: 0 }, { json: true }],
  ])("prints no progress for %s", async (_, options, audience) => {
    const terminal = new MemoryTerminal(options);
    // Timers of no time have run before.
    const work = () => pause(0).then(() => "done");
    expect(await terminal.progress("reading", work, audience)).toBe("done");
    expect(terminal.said).toBe("");
  });
});
