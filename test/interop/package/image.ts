import assert from "node:assert/strict";
import { chmod, cp, mkdir, readFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { runWell } from "../../testkit/programs/child-process.ts";
import type { Start } from "./issuance.ts";

const root = join(import.meta.dirname, "../../..");

/** The last stage of the Dockerfile, and how its program starts. */
export interface Image extends Start {
  readonly user: number;
  /** The words of `CMD`. */
  readonly usual: readonly string[];
}

/** The file system of a stage, as a folder, and what its instructions have set. */
interface Stage {
  readonly folder: string;
  readonly environment: Record<string, string>;
  /** The working directory, below the folder. */
  here: string;
  user: number | undefined;
  entrypoint: readonly string[];
  usual: readonly string[];
}

/**
 * Runs the stages of the Dockerfile as scripts, each in a folder that stands for its root. No engine is
 * needed, and this Node stands for the base.
 */
export async function buildImage(folder: string): Promise<Image> {
  const text = await readFile(join(root, "deploy/Dockerfile"), "utf8");
  const stages = new Map<string, Stage>();
  for (const line of text.replaceAll("\\\n", " ").split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const [, name = "", words = ""] = /^(\w+) +(.+)$/.exec(line) ?? [];
    const stage = [...stages.values()].at(-1);
    if (name === "FROM") {
      const [, own = "last"] = / AS (\w+)$/.exec(words) ?? [];
      stages.set(own, await beginStage(join(folder, own)));
    } else {
      const obey = instructions[name];
      if (!obey || !stage) throw new Error(`the Dockerfile has ${line}`);
      await obey(words, stage, stages);
    }
  }
  const last = stages.get("last");
  const [program, ...words] = last?.entrypoint ?? [];
  assert(last?.user !== undefined && program === "node", "not what is started");
  await chmod(folder, 0o755);
  const { folder: place, environment, user, usual } = last;
  const command = words.map((word) => (word.startsWith("/") ? join(place, word) : word));
  return { command: [process.execPath, ...command], environment, user, usual };
}

async function beginStage(folder: string): Promise<Stage> {
  await mkdir(folder, { recursive: true });
  return { folder, environment: {}, here: folder, user: undefined, entrypoint: [], usual: [] };
}

const path = `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`;

type Obey = (words: string, stage: Stage, stages: ReadonlyMap<string, Stage>) => unknown;

/** The assignments of `ENV` or `ARG`, of which some are in quotes. */
const assign: Obey = (words, { environment }) => {
  for (const [, name = "", quoted, plain = ""] of words.matchAll(/(\w+)=(?:"([^"]*)"|(\S*))/g))
    environment[name] = quoted ?? plain;
};

const instructions: Readonly<Record<string, Obey>> = {
  ARG: assign,
  ENV: assign,
  EXPOSE: () => {},
  COPY: copy,
  WORKDIR: async (words, stage) => {
    stage.here = join(stage.folder, words);
    await mkdir(stage.here, { recursive: true });
  },
  RUN: (words, { here, environment }) =>
    runWell("sh", ["-ec", words], {
      folder: here,
      environment: { PATH: path, ...environment },
      timeoutSeconds: 600,
    }),
  USER: (words, stage) => {
    stage.user = Number(/^(\d+):\1$/.exec(words)?.[1]);
  },
  ENTRYPOINT: (words, stage) => {
    stage.entrypoint = JSON.parse(words);
  },
  CMD: (words, stage) => {
    stage.usual = JSON.parse(words);
  },
};

async function copy(...[words, { here }, stages]: Parameters<Obey>): Promise<void> {
  const [, from, rest = ""] = /^(?:--from=(\w+) +)?(.+)$/.exec(words) ?? [];
  const sources = rest.split(/ +/);
  const target = sources.pop() ?? "";
  const origin = from === undefined ? root : stages.get(from)?.folder;
  assert(origin, `no stage ${from}`);
  for (const source of sources) {
    if (from === undefined) await requireInContext(source);
    const to = target.endsWith("/") ? join(here, target, basename(source)) : resolve(here, target);
    const filter = (file: string): boolean =>
      from !== undefined || !/\/(?:\.tsc|node_modules)(?:\/|$)/.test(file.slice(root.length));
    await cp(join(origin, source), to, { recursive: true, filter, verbatimSymlinks: true });
  }
}

/** What .dockerignore keeps out of the context, an engine does not find. */
async function requireInContext(source: string): Promise<void> {
  const lines = (await readFile(join(root, ".dockerignore"), "utf8")).split("\n");
  const [top = ""] = source.split("/");
  assert(lines.includes(`!${top}`), `.dockerignore leaves ${source} out`);
}
