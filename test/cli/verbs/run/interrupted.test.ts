import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:fs";
import { open, readdir, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import type { Command } from "commander";
import { expect, onTestFinished, test } from "vitest";
import { rampart } from "../../../../src/cli/rampart.ts";
import { randomKek } from "../../../testkit/configuration.ts";
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
  acceptance: "--url https://SERVER --token-file FOLDER/token",
  "certificate inspect": "http://SERVER/bundle.pem",
  "certificate request": "--url http://SERVER --token-file FOLDER/token --out FOLDER/certificate",
  "log tail": "--url http://SERVER/log/0",
  "log search": "--url http://SERVER/log/0",
  "log check": "--url http://SERVER/log/0",
  "log deletable": "--before 1d --dir FOLDER/copy --url http://SERVER/log/0",
  "log prove": "0 --url http://SERVER/log/0",
  "log follow": "--dir FOLDER/copy --url http://SERVER/log/0",
  // Its own certificate would have to be there first.
  "log verify": undefined,
  "policy replay": "FIFO --dir FOLDER/copy",
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

/** What a verb waits for in a test. */
interface Waited {
  readonly folder: string;
  readonly port: number;
  /** Resolves once the verb waits. @returns What ends its wait by a fault. */
  readonly reached: (words: string) => Promise<() => Promise<void>>;
}

/** A folder with a pipe and a token, and a server that never answers. */
async function whatIsWaitedFor(): Promise<Waited> {
  const folder = await temporaryFolder();
  const fifo = join(folder, "fifo.toml");
  execFileSync("mkfifo", [fifo]);
  await writeFile(join(folder, "token"), "a.b.c");
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket.on("error", () => {})));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const hangUp = async (): Promise<void> => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(hangUp);
  const { port } = server.address() as AddressInfo;
  const reached = async (words: string) => {
    if (words.includes("SERVER")) {
      if (sockets.length === 0) await once(server, "connection");
      return hangUp;
    }
    const pipe = await eventually(() => open(fifo, constants.O_WRONLY | constants.O_NONBLOCK));
    return async () => {
      // Nobody reads it after the end of a process.
      await pipe.writeFile("= no TOML").catch(() => {});
      await pipe.close();
    };
  };
  return { folder, port, reached };
}

function typed(verb: string, words: string, { folder, port }: Waited) {
  const filled = words
    .replaceAll("FIFO", join(folder, "fifo.toml"))
    .replaceAll("FOLDER", folder)
    .replaceAll("SERVER", `127.0.0.1:${port}`);
  const line = words === "SERVER" ? verb : `${verb} ${filled}`;
  return { words: line.split(" "), environment: { RAMPART_STATUS_ADDR: `127.0.0.1:${port}` } };
}

/** A copy of a log stays. */
const tracesIn = async (folder: string): Promise<readonly string[]> =>
  (await readdir(folder)).filter((name) => !/^(?:copy|fifo\.toml|token)$/.test(name));

/** One verb of each way to wait, which a signal ends as a process. */
const ended = new Map<string, keyof typeof codes>([
  ["authority list", "SIGINT"],
  ["cluster enrol", "SIGTERM"],
  ["log follow", "SIGINT"],
  ["acceptance", "SIGTERM"],
]);
const waiting = waits.flatMap(({ verb, words }) =>
  words === undefined ? [] : [{ verb, words, signal: ended.get(verb) }],
);

test.each(waiting.filter(({ signal }) => signal))(
  "$verb ends with a sentence and no trace by $signal while it waits",
  async ({ verb, words, signal = "SIGINT" }) => {
    const waited = await whatIsWaitedFor();
    const { folder } = waited;
    const { words: all, environment } = typed(verb, words, waited);
    const child = startRampart(all, environment, { folder });
    const reached = await Promise.race([waited.reached(words), child.ended]);
    child.send(signal);
    expect(await child.ended).toEqual(interrupted(signal));
    if (reached instanceof Function) await reached();
    expect(await tracesIn(folder)).toEqual([]);
  },
);

/** These read their configuration without a session. */
const alone = /^(?:authority root|cluster check|doctor|kek (?:un)?wrap|policy explain)$/;
const isInSession = (verb: string): boolean => !(verb in others) && !alone.test(verb);

// A session explains signals, and leaves those of a verb without one to the program, as the processes above show.
test.each(waiting.filter(({ signal }) => !signal))(
  "$verb has signals explained by its session alone while it waits, and leaves no trace",
  async ({ verb, words }) => {
    const waited = await whatIsWaitedFor();
    const { words: all, environment } = typed(verb, words, waited);
    const listeners = () => signals.map((name) => process.listenerCount(name));
    const before = listeners();
    const running = MemoryTerminal.ran(all, { environment: { KEK: randomKek(), ...environment } });
    const reached = await Promise.race([waited.reached(words), running]);
    if (!(reached instanceof Function)) throw new Error(`it did not wait: ${reached.said}`);
    expect(listeners()).toEqual(before.map((count) => count + (isInSession(verb) ? 1 : 0)));
    expect(await tracesIn(waited.folder)).toEqual([]);
    await reached();
    expect((await running).exitCode).toBeGreaterThan(0);
    expect(listeners()).toEqual(before);
  },
);

/** A hook that gives the command line, for a noun, a module that sends this process SIGINT and never completes. */
const atImport = `
  import { registerHooks } from "node:module";
  const noun = encodeURIComponent(
    'process.kill(process.pid, "SIGINT"); await new Promise(() => setInterval(() => {}, 1e9));'
  );
  registerHooks({
    resolve: (specifier, context, next) =>
      context.parentURL?.endsWith("/cli/rampart.ts") && specifier.startsWith("./verbs/")
        ? { url: "data:text/javascript," + noun, shortCircuit: true }
        : next(specifier, context),
  });`;

test("a signal while a noun is imported ends it with a sentence", async () => {
  const folder = await temporaryFolder();
  const hook = join(await temporaryFolder(), "hook.mjs");
  await writeFile(hook, atImport);
  const environment = { NODE_OPTIONS: `--import ${hook}` };
  const command = [process.execPath, sourceProgram];
  const { ended } = startRampart(["authority", "--help"], environment, { folder, command });
  expect(await ended).toEqual(interrupted("SIGINT"));
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
