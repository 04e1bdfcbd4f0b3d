import { readFileSync } from "node:fs";

const unit = readFileSync(new URL("../deploy/rampart-serve.service", import.meta.url), "utf8");

/** The flags that deploy/ gives to Node. Without them V8 takes memory rather than collect garbage. */
export const deployedFlags: readonly string[] =
  /^ExecStart=\S+((?: --\S+)+)/m.exec(unit)?.[1]?.trim().split(" ") ?? [];

/** The environment that deploy/ gives to Node. */
export const deployedEnvironment: Readonly<Record<string, string>> = Object.fromEntries(
  [...unit.matchAll(/^Environment=(\w+)=(\S+)$/gm)].map(([, name = "", value = ""]) => [
    name,
    value,
  ]),
);
