import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { run } from "../../testkit/programs/child-process.ts";

export const lifeSeconds = 30;

const wish = { name: "short", when: { namespace: "foo" } };
const then = { maximum_life: `${lifeSeconds}s` };

/** A rule before it bites, as it is meant, and with a mistake: pilot-agent has RSA keys. */
export const inShadow = { rules: [{ ...wish, shadow: true, then }] };
export const live = { rules: [{ ...wish, then }] };
export const mistaken = { rules: [{ ...wish, then: { ...then, key_types: ["EC-P256"] } }] };

interface Replay {
  readonly requests: number;
  readonly changes: number;
  readonly rules: readonly {
    readonly rule: string;
    readonly effects: Readonly<Record<string, number>>;
    readonly workloads: readonly string[];
  }[];
}

export const logToken = "a-token-of-whoever-replays-the-log-0001";

/** `rampart policy replay`, as an operator types it. @returns Its report, and its exit code. */
export async function replayed(
  folder: string,
  published: string,
  values: Readonly<Record<string, unknown>>,
): Promise<Replay & { readonly code: number }> {
  const file = join(folder, "new.toml");
  await writeFile(file, stringify(values));
  const program = join(import.meta.dirname, "../../../src/cli/main.ts");
  const words = ["policy", "replay", file, "--url", `${published}/log/0`, "--json"];
  const environment = { RAMPART_LOG_TOKEN: logToken };
  const { exitCode, stdout, stderr } = await run(process.execPath, [program, ...words], {
    environment,
  });
  if (exitCode !== 0 && exitCode !== 3) throw new Error(stderr);
  return { code: exitCode, ...JSON.parse(stdout) };
}

/** How often the rule changed something by this effect. */
export const effectIn = ({ rules }: Replay, effect: string): number =>
  rules.reduce((sum, { effects }) => sum + (effects[effect] ?? 0), 0);
