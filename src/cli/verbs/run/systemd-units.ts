import { readFileSync } from "node:fs";

const read = (program: string): string =>
  readFileSync(new URL(`../../../../deploy/rampart-${program}.service`, import.meta.url), "utf8");

/** The units of this repository for systemd. A bundle has their texts in the place of this module. */
export const systemdUnits = {
  serve: read("serve"),
  gateway: read("gateway"),
  agent: read("agent"),
};
