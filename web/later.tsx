// A view whose code comes when it is opened: the first page is small.
import type { ComponentType } from "preact";
import { Failed, Shown } from "./parts";
import { useLoad } from "./state";

export function Later({ what }: { what: () => Promise<ComponentType> }) {
  const view = useLoad<{ View: ComponentType }>(() => what().then((View) => ({ View })), []);
  if (view.error) return <Failed error={view.error} again={view.again} />;
  return <Shown of={view}>{({ View }) => <View />}</Shown>;
}
