import { expect } from "vitest";

/** A panel of a Grafana dashboard, with its targets' queries under the name that their data source has for them. */
export interface Panel<Query extends string> {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly targets?: readonly Readonly<Record<Query, string>>[];
  readonly gridPos: Readonly<Record<"x" | "y" | "w" | "h", number>>;
}

/** Expects of a dashboard that every panel but a row has a description, and that none covers another. */
export function expectExplainedAndApart(panels: readonly Panel<string>[]): void {
  expect(panels.filter(({ type, description }) => type !== "row" && !description)).toEqual([]);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
}
