import assert from "node:assert/strict";
import { chmod, cp, mkdir, readFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { runWell } from "../../testkit/programs/child-process.ts";
import type { Start } from "./issuance.ts";

const root = join(import.meta.dirname, "../../..");

/** The file system of a stage, as a folder, and what its instructions have set. */
interface Built {
  readonly folder: string;
  workdir: string;
  environment: Readonly<Record<string, string>>;
  user: number | undefined;
  entrypoint: readonly string[];
}

/** The last stage of the Dockerfile, and how its program starts. */
export interface Image extends Start {
  readonly user: number;
  /** The words of `CMD`. */
  readonly usual: readonly string[];
}

/**
 * Runs the stages of the Dockerfile as scripts, each in a folder that stands for its root. No engine is
 * needed, and this Node stands for the base.
 */
export async function buildImage(folder: string): Promise<Image> {
  const stages = parseDockerfile(await readFile(join(root, "deploy/Dockerfile"), "utf8"));
  const built = new Map<string, Built>();
  let last: Built | undefined;
  for (const [i, stage] of stages.entries()) {
    last = await buildStage(stage, join(folder, stage.name ?? `stage-${i}`), built);
    if (stage.name) built.set(stage.name, last);
  }
  const command = stages.at(-1)?.instructions.findLast(({ name }) => name === "CMD");
  const [program, ...words] = last?.entrypoint ?? [];
  assert(last && command && last.user !== undefined && program === "node", "not what is started");
  const { folder: rootFolder, environment, user } = last;
  await chmod(folder, 0o755);
  return {
    command: [process.execPath, ...words.map((word) => placeOf(rootFolder, word))],
    environment,
    user,
    usual: JSON.parse(command.text),
  };
}

async function buildStage(
  { instructions }: Stage,
  folder: string,
  earlier: ReadonlyMap<string, Built>,
): Promise<Built> {
  await mkdir(folder, { recursive: true });
  const stage = { folder, workdir: "/", environment: {}, user: undefined, entrypoint: [] };
  for (const instruction of instructions) await obey(instruction, stage, earlier);
  return stage;
}

/** An absolute path of the image, in the folder that stands for its root. */
const placeOf = (folder: string, word: string): string =>
  word.startsWith("/") ? join(folder, word) : word;

async function obey(
  { name, text }: Instruction,
  stage: Built,
  earlier: ReadonlyMap<string, Built>,
): Promise<void> {
  const here = join(stage.folder, stage.workdir);
  if (name === "WORKDIR") {
    stage.workdir = text;
    await mkdir(join(stage.folder, text), { recursive: true });
  } else if (name === "ARG" || name === "ENV")
    stage.environment = { ...stage.environment, ...parseEnv(text) };
  else if (name === "USER") stage.user = Number(/^(\d+):\1$/.exec(text)?.[1]);
  else if (name === "ENTRYPOINT") stage.entrypoint = JSON.parse(text);
  else if (name === "COPY") await copy(text, here, earlier);
  else if (name === "RUN") {
    const environment = { PATH: path, ...stage.environment };
    await runWell("sh", ["-ec", text], { folder: here, environment, timeoutSeconds: 600 });
  }
}

const path = `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`;

async function copy(
  text: string,
  here: string,
  earlier: ReadonlyMap<string, Built>,
): Promise<void> {
  const { from, sources, target } = parseCopy(text);
  const origin = from === undefined ? root : earlier.get(from)?.folder;
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

/** One instruction of a Dockerfile. */
interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** A stage: its base, its name if it has one, and what follows. */
interface Stage {
  readonly base: string;
  readonly name: string | undefined;
  readonly instructions: readonly Instruction[];
}

/** Reads the stages of a Dockerfile. @throws Error for an instruction that no stage may have here. */
function parseDockerfile(text: string): readonly Stage[] {
  const lines = text
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  const stages: (Stage & { instructions: Instruction[] })[] = [];
  for (const line of lines) {
    const [, name = "", rest = ""] = /^(\w+) +(.+)$/.exec(line) ?? [];
    const [, base, stage] = /^(?:--platform=\S+ )?(\S+)(?: AS (\w+))?$/.exec(rest) ?? [];
    if (name === "FROM" && base) stages.push({ base, name: stage, instructions: [] });
    else if (known.has(name)) stages.at(-1)?.instructions.push({ name, text: rest });
    else throw new Error(`the Dockerfile has ${line}`);
  }
  return stages;
}

const known = new Set([
  "ARG",
  "WORKDIR",
  "COPY",
  "RUN",
  "ENV",
  "USER",
  "EXPOSE",
  "ENTRYPOINT",
  "CMD",
]);

/** The words of `COPY`: from which stage, what, and to where. */
function parseCopy(text: string): {
  readonly from: string | undefined;
  readonly sources: readonly string[];
  readonly target: string;
} {
  const [, from, rest = ""] = /^(?:--from=(\w+) +)?(.+)$/.exec(text) ?? [];
  const words = rest.split(/ +/);
  return { from, sources: words.slice(0, -1), target: words.at(-1) ?? "" };
}

/** The assignments of `ENV` or `ARG`, of which some are in quotes. */
const parseEnv = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...text.matchAll(/(\w+)=(?:"([^"]*)"|(\S*))/g)].map(([, name, quoted, plain]) => [
      name,
      quoted ?? plain,
    ]),
  );
