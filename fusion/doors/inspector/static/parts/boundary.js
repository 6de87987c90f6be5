// A view that fails shows its error; the others go on.
import { html } from "../lib/html.js";
import { Component } from "../vendor/preact.js";
import { Fault } from "./basics.js";

export class Boundary extends Component {
  constructor() {
    super();
    this.state = { error: null };
  }

  componentDidCatch(error) {
    console.error(error);
    this.setState({ error });
  }

  render({ children }, { error }) {
    return error ? html`<${Fault} error=${error} />` : children;
  }
}
