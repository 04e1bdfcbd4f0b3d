import { expect, test } from "vitest";
import { parseConfiguration } from "../../../src/agent/configuration.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { agentRenewal } from "./clients.ts";
import { parseStormOptions, usage } from "./options.ts";
import { loadDefaults } from "./parameters.ts";
import { meshes, serverNames, simulateCase } from "./row.ts";
import { scenarios } from "./scenario.ts";

const defaults = loadDefaults();
const parse = (...args: string[]) => parseStormOptions(args, defaults);

test("without a selection every scenario, mesh and server is simulated in two sizes", () => {
  const { cases, seed, parameters } = parse();
  expect(cases).toHaveLength(
    2 * scenarios.length * Object.keys(meshes).length * serverNames.length,
  );
  expect(seed).toBe(1);
  expect(parameters).toEqual(defaults);
});

test("a selection and parameters count", () => {
  const { cases, parameters, seed } = parse(
    ...["--workloads", "10", "--scenario", "taint", "--mesh", "ambient", "--server", "serve"],
    ...["--certificate", "900.5", "--core-hour", "0.1", "--lifetime", "7200", "--seed", "42"],
  );
  expect(cases).toMatchObject([{ mesh: "ambient", server: "serve", workloads: 10 }]);
  expect(cases[0]?.scenario.name).toBe("a taint");
  expect(parameters).toMatchObject({ serveMicroseconds: 900.5, lifetimeSeconds: 7200 });
  expect(parameters.prices.coreHour).toBe(0.1);
  expect(seed).toBe(42);
});

test("the agents of the simulation renew as the agent does by default", () => {
  const pod = { POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" };
  expect(parseConfiguration(pod).renewal).toEqual(agentRenewal);
});

test("a certificate costs what the peers' benchmark measured", () => {
  for (const cost of [defaults.workerMicroseconds, defaults.serveMicroseconds]) {
    expect(cost).toBeGreaterThan(100);
    expect(cost).toBeLessThan(20_000);
  }
});

test.each([
  ["--workloads", "0"],
  ["--workloads", "-1"],
  ["--workloads", "1e6"],
  ["--workloads", "10,"],
  ["--workloads", "99999999"],
  ["--seed", "x"],
  ["--scenario", "earthquake"],
  ["--mesh", "linkerd"],
  ["--mesh", "constructor"],
  ["--server", "istiod"],
  ["--certificate", "0"],
  ["--connection", "-3"],
  ["--refusal", "NaN"],
  ["--core-hour", "1e3"],
  ["--lifetime", "3600"],
  ["--write", "--mesh", "agents"],
  ["--write", "--workloads", "100000"],
  ["--unknown"],
  ["storm"],
])("refuses %s %s %s", (...args) => {
  expect(() => parse(...args.filter((arg) => arg !== undefined))).toThrow(OperatorError);
});

test("the help names every option, mesh and server", () => {
  for (const word of ["--workloads", ...Object.keys(meshes), ...serverNames]) {
    expect(usage).toContain(word);
  }
});

test.each(scenarios)("$name of a small mesh serves everybody, at a price", (scenario) => {
  for (const server of serverNames) {
    const { row } = simulateCase({ scenario, mesh: "mixed", server, workloads: 500 }, defaults, 1);
    expect(row.lastServedSeconds).not.toBeNull();
    expect(row.served).toBeGreaterThan(500);
    expect(row.dollars).toBeGreaterThanOrEqual(0);
  }
});
