export { handler } from "@rampart-ca/rampart/lambda";
