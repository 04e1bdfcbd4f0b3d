/** One instruction of a Dockerfile. */
export interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** A stage: its base, its name if it has one, and what follows. */
export interface Stage {
  readonly base: string;
  readonly name: string | undefined;
  readonly instructions: readonly Instruction[];
}

/** Reads the stages of a Dockerfile. @throws Error for an instruction that no stage may have here. */
export function parseDockerfile(text: string): readonly Stage[] {
  const lines = text
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  const stages: (Stage & { instructions: Instruction[] })[] = [];
  for (const line of lines) {
    const [, name = "", rest = ""] = /^(\w+) +(.+)$/.exec(line) ?? [];
    const [, base, stage] = /^(\S+)(?: AS (\w+))?$/.exec(rest) ?? [];
    if (name === "FROM" && base) stages.push({ base, name: stage, instructions: [] });
    else if (known.has(name)) stages.at(-1)?.instructions.push({ name, text: rest });
    else throw new Error(`the Dockerfile has ${line}`);
  }
  return stages;
}

const known = new Set(["WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"]);

/** The words of `COPY`: from which stage, what, and to where. */
export function parseCopy(text: string): {
  readonly from: string | undefined;
  readonly sources: readonly string[];
  readonly target: string;
} {
  const [, from, rest = ""] = /^(?:--from=(\w+) +)?(.+)$/.exec(text) ?? [];
  const words = rest.split(/ +/);
  return { from, sources: words.slice(0, -1), target: words.at(-1) ?? "" };
}

/** The assignments of `ENV`. */
export const parseEnv = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(text.split(/ +/).map((word) => word.split("=", 2)));
