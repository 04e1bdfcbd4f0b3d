import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:fs";
import { open, readdir, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import type { Command } from "commander";
import { expect, onTestFinished, test } from "vitest";
import { rampart } from "../../../../src/cli/rampart.ts";
import { OperatorError } from "../../../../src/foundation/errors.ts";
import type { Ended } from "../../../testkit/programs/child-process.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import {
  serveToml,
  sourceProgram,
  startRampart,
} from "../../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";
import { eventually } from "../../../testkit/time/eventually.ts";

const codes = { SIGINT: 130, SIGTERM: 143 } as const;
const signals = ["SIGINT", "SIGTERM"] as const;

/** Every verb below a command, by its words. */
function verbsOf(command: Command, words: readonly string[] = []): [string, Command][] {
  return command.commands.flatMap((child) => {
    const name = [...words, child.name()];
    return child.commands.length > 0
      ? verbsOf(child, name)
      : [[name.join(" "), child] satisfies [string, Command]];
  });
}

const whole = await rampart("", new MemoryTerminal());

/**
 * How a verb without a configuration is brought to wait: it opens `FIFO`, which nobody has written to, or calls
 * `SERVER`, which never answers. `undefined` for one that waits for nothing.
 */
const others: Readonly<Record<string, string | undefined>> = {
  "cluster enrol": "--kubeconfig FIFO",
  "agent status": "SERVER",
  acceptance: "--url https://SERVER --token-file token",
  "certificate inspect": "http://SERVER/bundle.pem",
  "certificate request": "--url http://SERVER --token-file token --out certificate",
  "log tail": "--url http://SERVER/log/0",
  "log search": "--url http://SERVER/log/0",
  "log check": "--url http://SERVER/log/0",
  "log deletable": "--before 1d --dir copy --url http://SERVER/log/0",
  "log prove": "0 --url http://SERVER/log/0",
  "log follow": "--dir copy --url http://SERVER/log/0",
  // Its own certificate would have to be there first.
  "log verify": undefined,
  "policy replay": "FIFO --dir copy",
  "policy test": "FIFO",
  "issuer enrol": undefined,
  "kek new": undefined,
  init: undefined,
  docs: undefined,
  completion: undefined,
  "agent bootstrap": undefined,
};

/** These end in another way, which their own tests show. */
const programs = ["serve", "gateway", "distribute", "signer", "agent run"];

/** Words that bring a verb with a configuration to read it: values for all that it requires. */
function requiredWords({ registeredArguments, options }: Command): string {
  const values = registeredArguments.filter(({ required }) => required).map(() => "abcd");
  const flags = options
    .filter(({ mandatory }) => mandatory)
    .map(({ long, argChoices = ["abcd"] }) => `${long} ${argChoices[0]}`);
  return [...values, ...flags, "--config FIFO"].join(" ");
}

const hasConfiguration = ({ options }: Command): boolean =>
  options.some(({ long }) => long === "--config");

const waits = verbsOf(whole)
  .filter(([verb]) => !programs.includes(verb))
  .map(([verb, command]) => ({
    verb,
    noun: verb.split(" ")[0] ?? "",
    isKnown: verb in others || hasConfiguration(command),
    words: verb in others ? others[verb] : requiredWords(command),
  }));

test("this file knows how every verb is brought to wait", () => {
  expect(waits.filter(({ isKnown }) => !isKnown)).toEqual([]);
});

const interrupted = (signal: keyof typeof codes): Ended => ({
  exitCode: codes[signal],
  signal: null,
  stdout: "",
  stderr: expect.stringMatching(
    // A slow machine says what a verb is still at.
    new RegExp(
      `^(?:(?:On the|rampart: still) [^\\n]+\\n)*rampart: interrupted by ${signal}(?:: [^\\n]+)?\\n$`,
    ),
  ),
});

/** Opens a pipe for writing, which fails until somebody reads it. */
const opened = (fifo: string) => open(fifo, constants.O_WRONLY | constants.O_NONBLOCK);

/** These read their configuration without a session. */
const alone = ["authority root", "kek unwrap"];

const isInSession = ({ verb }: { readonly verb: string }): boolean =>
  !(verb in others) && !alone.includes(verb);

/** One verb of a noun shows by a signal what the others show by their session. */
const isInProcess = (each: (typeof waits)[number], i: number): boolean =>
  isInSession(each) &&
  i > waits.findIndex(({ noun, verb }) => noun === each.noun && isInSession({ verb }));

const waiting = waits
  .filter((each, i) => each.words !== undefined && !isInProcess(each, i))
  .map(({ verb, words = "" }, i) => [verb, signals[i % 2] ?? "SIGINT", words] as const);

test.each(waiting)(
  "%s ends with a sentence and no trace by %s while it waits",
  async (verb, signal, words) => {
    const folder = await temporaryFolder();
    const fifo = join(folder, "fifo.toml");
    execFileSync("mkfifo", [fifo]);
    await writeFile(join(folder, "token"), "a.b.c");
    const server = createServer().listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    server.on("connection", (socket) => socket.on("error", () => {}));
    const { port } = server.address() as AddressInfo;
    const { send, ended } = startRampart(
      [...verb.split(" "), ...words.split(" ")]
        .map((word) => word.replace("FIFO", fifo).replace("SERVER", `127.0.0.1:${port}`))
        .filter((word) => words !== "SERVER" || !word.startsWith("127.")),
      { RAMPART_STATUS_ADDR: `127.0.0.1:${port}` },
      { folder },
    );
    const isWaiting = words.includes("SERVER")
      ? once(server, "connection")
      : eventually(() => opened(fifo));
    const reached = await Promise.race([isWaiting, ended]);
    send(signal);
    expect(await ended).toEqual(interrupted(signal));
    if ("close" in reached) await reached.close();
    // `log follow` keeps its copy.
    const left = (await readdir(folder)).filter((name) => name !== "copy");
    expect(left.toSorted()).toEqual(["fifo.toml", "token"]);
  },
);

// A session explains signals, as the tests above show of a verb of each noun.
test.each(waits.filter(isInProcess))(
  "$verb waits for its configuration in a session, and leaves signals to that",
  async ({ verb, noun, words = "" }) => {
    const folder = await temporaryFolder();
    const fifo = join(folder, "fifo.toml");
    execFileSync("mkfifo", [fifo]);
    const listeners = () => signals.map((name) => process.listenerCount(name));
    const before = listeners();
    const program = await rampart(noun, new MemoryTerminal());
    const typed = [...verb.split(" "), ...words.split(" ")];
    const ended = program
      .parseAsync(
        typed.map((word) => word.replace("FIFO", fifo)),
        { from: "user" },
      )
      .catch((error: unknown) => error);
    const reached = await Promise.race([eventually(() => opened(fifo)), ended]);
    if (!(reached instanceof Object && "writeFile" in reached)) throw reached;
    expect(listeners()).toEqual(before.map((count) => count + 1));
    expect(await readdir(folder)).toEqual(["fifo.toml"]);
    const pipe = reached as Awaited<ReturnType<typeof opened>>;
    await pipe.writeFile("= no TOML");
    await pipe.close();
    expect(await ended).toBeInstanceOf(OperatorError);
    expect(listeners()).toEqual(before);
  },
);

/** A hook that gives the command line, for a noun, a module that sends this process a signal and never completes. */
const atImport = (signal: string): string => `
  import { registerHooks } from "node:module";
  const noun = encodeURIComponent(
    'process.kill(process.pid, "${signal}"); await new Promise(() => setInterval(() => {}, 1e9));'
  );
  registerHooks({
    resolve: (specifier, context, next) =>
      context.parentURL?.endsWith("/cli/rampart.ts") && specifier.startsWith("./verbs/")
        ? { url: "data:text/javascript," + noun, shortCircuit: true }
        : next(specifier, context),
  });`;

test.each([
  ["authority", "SIGINT"],
  ["serve", "SIGTERM"],
] as const)("a signal while %s is imported ends it with a sentence: %s", async (noun, signal) => {
  const folder = await temporaryFolder();
  const hook = join(await temporaryFolder(), "hook.mjs");
  await writeFile(hook, atImport(signal));
  const environment = { NODE_OPTIONS: `--import ${hook}` };
  const command = [process.execPath, sourceProgram];
  const { ended } = startRampart([noun, "--help"], environment, { folder, command });
  expect(await ended).toEqual(interrupted(signal));
  expect(await readdir(folder)).toEqual([]);
});

test("SIGTERM while serve founds its first authority ends it with a sentence, and no trace", async () => {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  const values = { AUTHORITY_KEY: "RSA-4096", ISSUERS: [{ issuer: "https://a.test" }] };
  await writeFile(config, serveToml(join(folder, "store"), values));
  const { onLine, send, ended, lines: said } = startRampart(["serve", "-c", config]);
  onLine((line) => {
    if (line.includes("monitoring on")) send("SIGTERM");
  });
  expect(await ended).toMatchObject({ exitCode: 0 });
  // The error stream has warnings of the log, and nothing else.
  expect(said.filter((line) => line.includes(`"event":"ending"`))).toEqual([
    expect.stringContaining("SIGTERM"),
  ]);
  expect(said.filter((line) => !line.startsWith("{"))).toEqual([]);
});
