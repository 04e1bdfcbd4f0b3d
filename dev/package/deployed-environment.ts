import { readFileSync } from "node:fs";

const unit = readFileSync(new URL("../../deploy/rampart-serve.service", import.meta.url), "utf8");

/** The environment that deploy/ gives to Node. */
export const deployedEnvironment: Readonly<Record<string, string>> = Object.fromEntries(
  [...unit.matchAll(/^Environment=(\w+)=(\S+)$/gm)].map(([, name = "", value = ""]) => [
    name,
    value,
  ]),
);

if (Object.keys(deployedEnvironment).length === 0) throw new Error("the unit sets no variable");
