"""Parquet: columns as they are stored, in batches or whole."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as papq

from swapcal.tables.delimited import Piece
from swapcal.tables.dialect import InputError
from swapcal.tables.kinds import ReadAs
from swapcal.tables.opened import Opened

ROWS = 1 << 17
BUFFER = 1 << 20


class Parquet:
    """A Parquet file: its columns, and its rows as Arrow tables."""

    def __init__(self, opened: Opened) -> None:
        self._name = opened.name
        try:
            # Buffering ahead would keep every column read so far; a small buffer bounds memory by the batch.
            self._file = papq.ParquetFile(opened.seekable(), buffer_size=BUFFER, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{opened.name}: given Parquet that cannot be read ({error}), expected it whole") from None
        self.columns = list(self._file.schema_arrow.names)

    def parts(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[tuple[pa.Table, float | None]]:
        """Yield tables of the named columns."""
        total, seen = max(1, self._file.metadata.num_rows), 0
        try:
            for batch in self._file.iter_batches(batch_size=ROWS, columns=list(kinds)):
                seen += len(batch)
                yield pa.Table.from_batches([batch]).select(list(kinds)), seen / total
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self._name}: given Parquet that cannot be read ({error}), expected it whole") from None

    def pieces(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[Piece]:
        """Yield tables of all columns; each has the type it is stored as."""
        for table, share in self.parts(dict.fromkeys(self.columns, ReadAs.any), jobs):
            yield Piece(table, [], "", share, share == 1.0)
