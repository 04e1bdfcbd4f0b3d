import { parseArgs } from "node:util";
import { type Row, rows } from "./rows.ts";

/** Which rows to play, and for how long. */
export interface Options {
  readonly seconds: number;
  readonly rows: readonly Row[];
}

const allServers = [...new Set(rows.map(({ scene }) => scene.name))];
const allMethods = [...new Set(rows.map(({ method }) => method))];

/** Describes every option. */
export const usage = `npm run bench:floods -- [options]

  --seconds S    how long each flood takes (30)
  --method PART  the methods with this part in their names, or several times (all)
  --server NAME  ${allServers.join(", ")}, or several times (all)

A row at address floods from the address of its honest caller, at door from that of the gateway before it, and
at monitoring the port for operators.

Methods: ${allMethods.join("; ")}`;

/** @throws Error for an unknown option, a duration that is no number, or a name that selects nothing. */
export function parseOptions(words: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...words],
    options: {
      seconds: { type: "string", default: "30" },
      method: { type: "string", multiple: true },
      server: { type: "string", multiple: true },
    },
  });
  return {
    seconds: duration("seconds", values.seconds),
    rows: rowsOf(
      selected("method", allMethods, values.method),
      selected("server", allServers, values.server),
    ),
  };
}

function duration(name: string, text: string): number {
  if (!/^\d+$/.test(text) || Number(text) === 0) {
    throw new Error(`--${name} takes a whole number of seconds, not "${text}"`);
  }
  return Number(text);
}

function selected(option: string, names: readonly string[], parts: readonly string[] = [""]) {
  const vain = parts.find((part) => !names.some((name) => name.includes(part)));
  if (vain !== undefined)
    throw new Error(`--${option} "${vain}" is no part of: ${names.join("; ")}`);
  return names.filter((name) => parts.some((part) => name.includes(part)));
}

function rowsOf(methods: readonly string[], servers: readonly string[]): readonly Row[] {
  const those = rows.filter(
    ({ method, scene }) => methods.includes(method) && servers.includes(scene.name),
  );
  if (those.length === 0) throw new Error("no such method is played at such a server");
  return those;
}
