import { readFileSync } from "node:fs";

const read = (program: string): string =>
  readFileSync(new URL(`../../../../deploy/rampart-${program}.service`, import.meta.url), "utf8");

/** The units of this repository for systemd. The bundled program has their texts instead of this module. */
export const systemdUnits = {
  serve: read("serve"),
  gateway: read("gateway"),
  agent: read("agent"),
};
