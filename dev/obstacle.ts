/**
 * What keeps the development system from running, and what to do about it: shown to whoever typed
 * `npm start` as it stands, without a stack.
 */
export class Obstacle extends Error {
  override readonly name = "Obstacle";
}
