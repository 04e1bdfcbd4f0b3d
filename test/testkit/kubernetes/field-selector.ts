/** Whether an object has what a `fieldSelector` of the API asks for: terms of `=`, `==` and `!=`. */
export function fitsSelector(object: unknown, selector: string | null): boolean {
  return (selector ?? "")
    .split(",")
    .filter(Boolean)
    .every((term) => {
      const [, field = "", operator, value] = /^([\w.]+?)(!=|==?)(.*)$/.exec(term) ?? [];
      return (operator === "!=") !== (fieldOf(object, field) === value);
    });
}

function fieldOf(object: unknown, path: string): unknown {
  return path
    .split(".")
    .reduce<unknown>((at, name) => (Object(at) as Record<string, unknown>)[name], object);
}
