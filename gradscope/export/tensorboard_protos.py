"""TensorBoard's protocol buffers, built without TensorFlow: its own helpers for hyperparameters and text need that.

Importing this module imports tensorboard.
"""

from collections.abc import Iterator, Mapping, Sequence

from tensorboard.compat.proto.event_pb2 import Event, SourceMetadata
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.plugins.text import metadata as text_metadata

FILE_VERSION = "brain.Event:2"

DATA_TYPES = {
    str: api_pb2.DATA_TYPE_STRING,
    float: api_pb2.DATA_TYPE_FLOAT64,
    bool: api_pb2.DATA_TYPE_BOOL,
}


def file_header(wall_seconds: float) -> Event:
    """Return the event that must come first in a file."""
    source = SourceMetadata(writer="gradscope")
    return Event(wall_time=wall_seconds, file_version=FILE_VERSION, source_metadata=source)


def event(wall_seconds: float, step: int, values: Summary) -> Event:
    """Return values at a step."""
    return Event(wall_time=wall_seconds, step=step, summary=values)


def scalars(values: Mapping[str, float]) -> Summary:
    """Return tags with their values, all of one step."""
    return Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])


def text(tag: str, markdown: str) -> Summary:
    """Return a text for the TEXT tab."""
    tensor = TensorProto(
        dtype=DT_STRING,
        string_val=[markdown.encode("utf-8", "backslashreplace")],
        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
    )
    return Summary(
        value=[Summary.Value(tag=tag, tensor=tensor, metadata=text_metadata.create_summary_metadata(tag, ""))]
    )


def session(
    *,
    kinds: Mapping[str, type],
    hparams: Mapping[str, str | float | bool],
    metrics: Sequence[tuple[str, str]],
    group: str,
    start_seconds: float,
    end_seconds: float,
    succeeded: bool,
) -> Iterator[Summary]:
    """Yield what the HPARAMS tab needs: which hyperparameters and metrics there are, and this run's values.

    Args:
        kinds: All hyperparameters there are, and what they hold: `str`, `float` or `bool`.
        hparams: Those that this run has, and its values.
        metrics: Tags of scalars in the same run, with their labels.
        group: Runs of one group are taken for repetitions of one another.
        start_seconds: Wall time of the start.
        end_seconds: Wall time of the end.
        succeeded: Whether the run came to its end.
    """
    experiment = api_pb2.Experiment(
        hparam_infos=[api_pb2.HParamInfo(name=name, type=DATA_TYPES[kind]) for name, kind in kinds.items()],
        metric_infos=[
            api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag), display_name=label) for tag, label in metrics
        ],
        time_created_secs=start_seconds,
    )
    start = plugin_data_pb2.SessionStartInfo(start_time_secs=start_seconds, group_name=group)
    for name, value in hparams.items():
        if isinstance(value, bool):
            start.hparams[name].bool_value = value
        elif isinstance(value, (int, float)):
            start.hparams[name].number_value = value
        else:
            start.hparams[name].string_value = value
    status = api_pb2.STATUS_SUCCESS if succeeded else api_pb2.STATUS_FAILURE
    end = plugin_data_pb2.SessionEndInfo(end_time_secs=end_seconds, status=status)
    data = plugin_data_pb2.HParamsPluginData
    yield _plugin_value(hparams_metadata.EXPERIMENT_TAG, data(experiment=experiment))
    yield _plugin_value(hparams_metadata.SESSION_START_INFO_TAG, data(session_start_info=start))
    yield _plugin_value(hparams_metadata.SESSION_END_INFO_TAG, data(session_end_info=end))


def _plugin_value(tag: str, data: plugin_data_pb2.HParamsPluginData) -> Summary:
    metadata = hparams_metadata.create_summary_metadata(data)
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=hparams_metadata.NULL_TENSOR)])
